-- What runs note of themselves.

-- name: notes
SELECT payload FROM onward_record
WHERE namespace = :namespace AND run = :uid AND kind = 'note';
