// A plugin of Velero: an object store that is a folder of this machine.
package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/vmware-tanzu/velero/pkg/plugin/framework"
	"github.com/vmware-tanzu/velero/pkg/plugin/velero"
)

func main() {
	framework.NewServer().
		RegisterObjectStore("gatehouse.dev/folder", func(logrus.FieldLogger) (interface{}, error) { return &store{}, nil }).
		Serve()
}

type store struct{ root string }

var _ velero.ObjectStore = &store{}

func (s *store) Init(config map[string]string) error {
	s.root = config["folder"]
	if s.root == "" {
		return errors.New("the config of the BackupStorageLocation has no folder")
	}
	return nil
}

func (s *store) path(bucket, key string) string {
	return filepath.Join(s.root, bucket, filepath.FromSlash(key))
}

func (s *store) PutObject(bucket, key string, body io.Reader) error {
	path := s.path(bucket, key)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return err
	}
	if _, err := io.Copy(file, body); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

func (s *store) ObjectExists(bucket, key string) (bool, error) {
	_, err := os.Stat(s.path(bucket, key))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (s *store) GetObject(bucket, key string) (io.ReadCloser, error) {
	return os.Open(s.path(bucket, key))
}

func (s *store) ListObjects(bucket, prefix string) ([]string, error) {
	found := []string{}
	root := filepath.Join(s.root, bucket)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || entry.IsDir() {
			return err
		}
		key, err := filepath.Rel(root, path)
		if key = filepath.ToSlash(key); strings.HasPrefix(key, prefix) {
			found = append(found, key)
		}
		return err
	})
	return found, err
}

// The parts of keys between the prefix and the next delimiter, with both.
func (s *store) ListCommonPrefixes(bucket, prefix, delimiter string) ([]string, error) {
	keys, err := s.ListObjects(bucket, prefix)
	if err != nil {
		return nil, err
	}
	prefixes := []string{}
	for _, key := range keys {
		part, _, isLonger := strings.Cut(key[len(prefix):], delimiter)
		whole := prefix + part + delimiter
		if isLonger && (len(prefixes) == 0 || prefixes[len(prefixes)-1] != whole) {
			prefixes = append(prefixes, whole)
		}
	}
	return prefixes, nil
}

func (s *store) DeleteObject(bucket, key string) error {
	return os.Remove(s.path(bucket, key))
}

func (s *store) CreateSignedURL(bucket, key string, _ time.Duration) (string, error) {
	return "", errors.New("a folder has no URLs")
}
