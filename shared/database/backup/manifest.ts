/**
 * What a backup directory holds, for whoever makes one and whoever restores it.
 *
 * | In the backup directory      | What                                                                                    |
 * |------------------------------|-----------------------------------------------------------------------------------------|
 * | strata-backup.json           | which database it is of; written first                                                  |
 * | base-<time>/files/           | the files of the server as they were between two moments, which only the log makes whole |
 * | base-<time>/postgres.password | the password of the server's user, which fits these files                               |
 * | base-<time>/manifest.json    | what is in `files`, with checksums; written last: without it there is no backup          |
 * | wal/                         | the log, compressed, as the server archives it from the first base on                    |
 */
import { hash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { CannotStart } from '../../process/cannot-start.ts';
import { writeWhole, type Copied } from './durable-files.ts';

export interface BackedUpFile extends Copied {
  /** Below `files`, with slashes. */
  readonly path: string;
}

export interface Manifest {
  readonly format: 1;
  /** The release that made it. */
  readonly version: string;
  /** What initdb gave the server: a log fits only files of the same. */
  readonly system_identifier: string;
  readonly timeline: number;
  /**
   * Positions in the log; from the first on it is needed, from the second on the files are whole.
   */
  readonly start: string;
  readonly stop: string;
  readonly first_segment: string;
  readonly started_at: string;
  /** The earliest moment that this base can be restored to. */
  readonly finished_at: string;
  /** Says which SECRET_KEY opens what is sealed in it; tells nothing about the key. */
  readonly secret_key_id: string;
  /** Directories, also those without files. */
  readonly directories: readonly string[];
  readonly files: readonly BackedUpFile[];
  /** Of the file beside them with the password of the server's user. */
  readonly password: Copied;
}

export interface Base {
  /** Absolute. */
  readonly directory: string;
  readonly manifest: Manifest;
}

export const filesOf = (base: string): string => join(base, 'files');
export const walOf = (directory: string): string => join(directory, 'wal');

const digestOf = (manifest: unknown): string => hash('sha256', JSON.stringify(manifest), 'hex');

export function writeManifest(base: string, manifest: Manifest): void {
  const sealed = { manifest, sha256: digestOf(manifest) };
  writeWhole(join(base, 'manifest.json'), `${JSON.stringify(sealed)}\n`);
}

/** Undefined where the base was not finished. Throws CannotStart where the manifest is damaged. */
export function readManifest(base: string): Manifest | undefined {
  const file = join(base, 'manifest.json');
  if (!existsSync(file)) return undefined;
  const manifest = intact(readFileSync(file, 'utf8'));
  if (!manifest)
    throw new CannotStart(`${file} is damaged. Move ${base} away to restore an older one.`);
  if (manifest.format !== 1)
    throw new CannotStart(`${base} was made by a later release (${manifest.version}).`);
  return manifest;
}

function intact(text: string): Manifest | undefined {
  try {
    const { manifest, sha256 } = JSON.parse(text) as { manifest: Manifest; sha256: string };
    return digestOf(manifest) === sha256 ? manifest : undefined;
  } catch {
    return undefined;
  }
}

export const baseNames = (directory: string): string[] =>
  readdirSync(directory)
    .filter((name) => name.startsWith('base-'))
    .sort();

/** Those that were finished, the newest first. */
export const basesIn = (directory: string): Base[] =>
  baseNames(directory)
    .toReversed()
    .flatMap((name) => {
      const base = join(directory, name);
      const manifest = readManifest(base);
      return manifest ? [{ directory: base, manifest }] : [];
    });

/** Which database the directory is of; undefined where it is no backup directory. */
export function ownerOf(directory: string): string | undefined {
  const file = join(directory, 'strata-backup.json');
  if (!existsSync(file)) return undefined;
  const { system_identifier: owner } = JSON.parse(readFileSync(file, 'utf8')) as {
    system_identifier: string;
  };
  return owner;
}

export const writeOwner = (directory: string, systemIdentifier: string): void =>
  writeWhole(
    join(directory, 'strata-backup.json'),
    `${JSON.stringify({ system_identifier: systemIdentifier })}\n`,
  );
