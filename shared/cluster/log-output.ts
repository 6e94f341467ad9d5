/**
 * Where the lines of the log go: standard output. Those that follow one within 20 ms wait until
 * then and are written together, since a system call for each takes as long as a statement of the
 * database. A warning is there at once, with all before it, and so is everything when the process
 * ends.
 */
import { pino, type DestinationStream } from 'pino';

/** After a line. */
const gatheringMs = 20;
/** Longer ones do not wait. */
const mostCharacters = 16 * 1024;
const standardOutput = 1;

class LogOutput implements DestinationStream {
  /** Asks pino for `lastLevel`. */
  readonly [pino.symbols.needsMetadataGsym] = true;
  /** Of the line that is written next. */
  lastLevel = 0;
  readonly #destination = pino.destination({ dest: standardOutput, sync: true });
  #lines = '';
  #isGathering = false;

  write(line: string): void {
    this.#lines += line;
    const isUrgent = this.lastLevel >= pino.levels.values.warn!;
    if (isUrgent || !this.#isGathering || this.#lines.length > mostCharacters) this.flush();
    if (!this.#isGathering) this.#gather();
  }

  #gather(): void {
    this.#isGathering = true;
    setTimeout(() => {
      this.#isGathering = false;
      if (this.#lines === '') return;
      this.flush();
      this.#gather();
    }, gatheringMs).unref();
  }

  flush(): void {
    const lines = this.#lines;
    this.#lines = '';
    if (lines !== '') this.#destination.write(lines);
  }
}

let output: LogOutput | undefined;

/** One for all logs of the process, so that their lines keep their order. */
export function logOutput(): DestinationStream {
  if (output) return output;
  const made = new LogOutput();
  process.on('exit', () => made.flush());
  output = made;
  return made;
}
