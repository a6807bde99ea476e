"""The memberships of releases: private files that record who is in which class of which release.

They are needed by models about several releases of the same people. A person is identified by a keyed hash of
an identifier column. The hash is taken while the source is read, kept next to the table in the run's work
area, and follows the records into the release. Once a release is published, its memberships are kept in the
curator's folder, readable only by the service user, until the release is retracted. Without the key, no one
can find out who a hash belongs to. With another key, the persons of two releases could not be compared, so a
file with another key is refused. Neither hashes nor key are ever published.
"""
