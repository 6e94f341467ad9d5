import type { Session } from './session.ts';

export interface Flag {
  readonly type: 'string' | 'boolean';
  readonly multiple?: boolean;
  readonly says: string;
}
export interface Flags {
  readonly [name: string]: string | boolean | (string | boolean)[] | undefined;
}

export interface Run {
  readonly session: Session;
  /** By the names in the usage; optional ones may be absent. */
  readonly words: Readonly<Record<string, string | undefined>>;
  readonly rest: readonly string[];
  readonly flags: Flags;
  readonly print: (line: string) => void;
  /** Aborted by Ctrl-C. */
  readonly signal: AbortSignal;
}

export interface Command {
  /** `config get`, and what follows it: `<needed> [optional] [rest...]`. */
  readonly name: string;
  readonly takes: string;
  readonly says: string;
  readonly flags?: Readonly<Record<string, Flag>>;
  readonly run: (run: Run) => Promise<void>;
  /** What may stand as the word of that name. */
  readonly complete?: Readonly<Record<string, (session: Session) => Promise<readonly string[]>>>;
}

/** The operator typed what no command understands. */
export class Misused extends Error {}

export const json = (value: unknown): string => JSON.stringify(value, null, 2);

/** Rows as aligned columns, headed by their names; `-` stands where a row has no such value. */
export function columns(rows: readonly Readonly<Record<string, unknown>>[]): string {
  if (rows.length === 0) return 'none';
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const table = [names, ...rows.map((row) => names.map((name) => String(row[name] ?? '-')))];
  const widths = names.map((_name, index) =>
    Math.max(...table.map((cells) => cells[index]!.length)),
  );
  return table
    .map((cells) =>
      cells
        .map((cell, index) => cell.padEnd(widths[index]!))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

export const text = (flag: Flags[string]): string | undefined =>
  typeof flag === 'string' ? flag : undefined;
export const count = (flag: Flags[string], otherwise: number): number => {
  if (flag === undefined) return otherwise;
  if (typeof flag !== 'string' || !/^[1-9][0-9]{0,2}$/.test(flag))
    throw new Misused('a number from 1 to 999 is needed');
  return Number(flag);
};
/** Without the members that are undefined, which a contract would refuse. */
export const given = <T extends object>(values: T): { [K in keyof T]: Exclude<T[K], undefined> } =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as never;

export const tenantIds = async (session: Session): Promise<readonly string[]> =>
  (await session.call('tenant-config.tenants.list', { limit: 200 })).items.map(({ id }) => id);
