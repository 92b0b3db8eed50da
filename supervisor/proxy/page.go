package proxy

import (
	"embed"
	"io/fs"
	"net/http"
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
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			writeError(w, &httpError{status: http.StatusNotFound, code: "unknown_url",
				message: "there is no such endpoint: " + r.Method + " " + r.URL.Path})
			return
		}
		if _, err := fs.Stat(files, pagePath(r.URL.Path)); err != nil {
			writeError(w, &httpError{status: http.StatusNotFound, code: "unknown_url",
				message: "there is no such endpoint: " + r.Method + " " + r.URL.Path})
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'; base-uri 'none'")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache")
		static.ServeHTTP(w, r)
	})
}

func pagePath(url string) string {
	if url == "/" {
		return "index.html"
	}
	return url[1:]
}
