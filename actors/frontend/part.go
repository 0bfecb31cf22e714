package frontend

import (
	"mime"
	"mime/multipart"
)

// PartName is the whole name of a part of a form, "" if it has none: [multipart.Part.FileName] has only the end of a path.
func PartName(part *multipart.Part) string {
	_, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	if err != nil {
		return ""
	}
	return params["filename"]
}
