-- The size of a SQLite file.

-- name: file_pages
SELECT c.page_count, f.freelist_count, s.page_size
FROM pragma_page_count c, pragma_freelist_count f, pragma_page_size s;
