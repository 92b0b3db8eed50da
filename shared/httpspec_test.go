package shared

import "testing"

func TestAddressesOtherThanLoopback(t *testing.T) {
	key := []string{"k"}
	for _, bad := range []HTTPSpec{
		{Listen: "0.0.0.0:80"}, {Listen: ":80"}, {Listen: "[::]:80"}, {Listen: "10.0.0.1:80", APIKeys: key},
		{Listen: "example.com:80", CertFile: "c", KeyFile: "k"}, {Listen: "nonsense"}, {Listen: "127.0.0.1:http"}, {Listen: "127.0.0.1:70000"},
		{Listen: "127.0.0.1:80", CertFile: "c"}, {Listen: "127.0.0.1:80", APIKeys: []string{""}},
		{Listen: "0.0.0.0:80", Insecure: true, AdminKeys: []string{""}},
	} {
		if err := bad.Validate(); KindOf(err) != KindConfig {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	for _, good := range []HTTPSpec{
		{Listen: "127.0.0.1:0"}, {Listen: "[::1]:80"}, {Listen: "localhost:80"}, {Listen: "0.0.0.0:80", Insecure: true},
		{Listen: "0.0.0.0:80", APIKeys: key, CertFile: "c", KeyFile: "k"},
	} {
		if err := good.Validate(); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
}
