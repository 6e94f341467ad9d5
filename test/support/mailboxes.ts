/**
 * Where the mails of the Strata processes and mail servers of a test file arrive, so that a fixture
 * can follow a link that was mailed to somebody, whichever way it went.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import PostalMime from 'postal-mime';

interface KeptMail {
  readonly to: readonly string[];
  readonly text: string;
}
/** All mails of one place, the oldest first. */
type Mailbox = () => Promise<readonly KeptMail[]>;
const mailboxes = new Set<Mailbox>();

/** Gives the function that takes the place off the list again. */
export function addMailbox(mailbox: Mailbox): () => void {
  mailboxes.add(mailbox);
  return () => mailboxes.delete(mailbox);
}

const watchedFolders = new Set<string>();

/**
 * The mails that a Strata process without a mail server keeps in its DATA_DIR; none of those that
 * are there already, where only later ones are wanted.
 */
export function watchMailFolder(dataDir: string, { fromNowOn = false } = {}): void {
  const folder = join(dataDir, 'mail');
  if (watchedFolders.has(folder)) return;
  watchedFolders.add(folder);
  const earlier = new Set(fromNowOn ? emlFiles(folder) : []);
  const read = new Map<string, KeptMail>();
  addMailbox(async () => {
    for (const file of emlFiles(folder)) {
      if (earlier.has(file) || read.has(file)) continue;
      const { to = [], text = '' } = await PostalMime.parse(readFileSync(join(folder, file)));
      read.set(file, { to: to.map(({ address = '' }) => address), text });
    }
    return [...read.values()];
  });
}

function emlFiles(folder: string): string[] {
  try {
    return readdirSync(folder)
      .filter((file) => /^[^.].*\.eml$/.test(file))
      .sort();
  } catch {
    // Nothing has been mailed yet.
    return [];
  }
}

let ownFolder: string | undefined;

/** A DATA_DIR for processes that the test gives none: mails of one run are not those of another. */
export function mailDataDir(): string {
  if (ownFolder === undefined) {
    const folder = mkdtempSync(join(tmpdir(), 'strata-data-'));
    process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
    ownFolder = folder;
  }
  return ownFolder;
}

const tokenIn = /\/accept-invitation#token=([\w-]{43})/;

/** The texts of all mails to the address, the oldest first. */
export async function mailsTo(address: string): Promise<string[]> {
  const mails: KeptMail[] = [];
  for (const mailbox of mailboxes) mails.push(...(await mailbox()));
  return mails.filter(({ to }) => to.includes(address)).map(({ text }) => text);
}

/** The tokens of all invitations that were mailed to the address, the oldest first. */
export async function invitationTokens(address: string): Promise<string[]> {
  const texts = await mailsTo(address);
  return texts.flatMap((text) => tokenIn.exec(text)?.[1] ?? []);
}

/**
 * The token of the nth invitation to the address, waiting up to a minute: mail is sent after the
 * request is answered.
 */
export async function invitationToken(address: string, nth = 1): Promise<string> {
  const until = Date.now() + 60_000;
  for (;;) {
    const tokens = await invitationTokens(address);
    const token = tokens[nth - 1];
    if (token !== undefined) return token;
    if (Date.now() > until)
      throw new Error(`${address} has been mailed ${tokens.length} invitations, not ${nth}`);
    await delay(20);
  }
}
