/** Why a start fails, as whoever started reads it. */

/** The message is one line: what is wrong, where, and what to do. It is shown without a stack. */
export class CannotStart extends Error {
  constructor(message: string, { cause }: { cause?: unknown } = {}) {
    super(message, { cause });
    this.name = 'CannotStart';
  }
}

/** The command line is not understood. */
export class WrongUsage extends CannotStart {}

/** What another program wrote, as a part of such a line. */
export const oneLine = (text: string): string => text.trim().replaceAll(/\s*\n\s*/g, ' ');

/**
 * What an error says of itself. One for several attempts, as of the addresses of `localhost`, is
 * empty but for its parts.
 */
export function messageOf(error: unknown): string {
  const { message, code } = error as { message?: string; code?: string };
  const [first] = error instanceof AggregateError ? (error.errors as unknown[]) : [];
  if (first !== undefined && !message) return messageOf(first);
  return message || code || String(error);
}
