package proxy

import (
	"embed"
	"io/fs"
	"net/http"
	"strings"
)

//go:embed page
var pageFiles embed.FS

// pageHandler serves the page. It loads nothing from elsewhere, and says so to
// the browser.
func pageHandler() http.Handler {
	files, err := fs.Sub(pageFiles, "page")
	if err != nil {
		panic(err) // the folder is compiled in
	}
	static := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := fs.Stat(files, pagePath(r.URL.Path))
		if err != nil || r.Method != http.MethodGet && r.Method != http.MethodHead {
			unknownURL(w, r)
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'; base-uri 'none'")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache")
		static.ServeHTTP(w, r)
	})
}

func unknownURL(w http.ResponseWriter, r *http.Request) {
	refuse(w, r, &httpError{status: http.StatusNotFound, code: "unknown_url",
		message: strings.ToValidUTF8("there is no such endpoint: "+r.Method+" "+r.URL.Path, "\uFFFD")})
}

func onlyPost(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Allow", http.MethodPost)
	writeError(w, &httpError{status: http.StatusMethodNotAllowed, code: "method_not_allowed",
		message: r.URL.Path + " takes POST"})
}

func pagePath(url string) string {
	if url == "/" {
		return "index.html"
	}
	return url[1:]
}
