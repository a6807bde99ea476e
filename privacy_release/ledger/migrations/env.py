"""What alembic runs: the ledger's migrations, on the connection and in the transaction that it was given."""

from alembic import context

from privacy_release.ledger.tables import VERSION_TABLE


def run() -> None:
    """Run the migrations between the database's revision and the one asked for."""
    context.configure(connection=context.config.attributes["connection"], version_table=VERSION_TABLE)
    with context.begin_transaction():
        context.run_migrations()


# The name under which alembic loads this file; other tools may import it, to no effect.
if __name__ == "env_py":
    run()
