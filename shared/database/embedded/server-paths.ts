/** What the parts of the embedded server share: where things are, and as whom PostgreSQL runs. */

/** The system account that PostgreSQL runs as; our own where empty. */
export interface Account {
  readonly uid?: number;
  readonly gid?: number;
}

export interface ServerPaths {
  /** DATA_DIR, absolute and without symbolic links. */
  readonly home: string;
  /** PostgreSQL's data directory ("cluster" in its manual). */
  readonly cluster: string;
  readonly passwordFile: string;
  /** Has `bin/postgres` and `bin/initdb`. */
  readonly binaries: string;
  readonly account: Account;
}

/**
 * For every program that is run: our own environment holds secrets, and none of it is handed on.
 */
export const environment = { LC_ALL: 'C', TZ: 'UTC' };

/** Says in the log or on the console what happens to the server. */
export type Say = (message: string) => void;
