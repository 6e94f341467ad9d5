/** Server-Sent Events (HTML, 9.2) out of a stream of bytes. EventSource can't send a credential. */

/** Fields by name; those of the same name are lines of one text. */
export interface StreamEvent {
  readonly event?: string;
  readonly data?: string;
  /** How many milliseconds the server wants to be left alone after the end. */
  readonly retry?: string;
}

/** Longer than any event that Strata sends: one without an end must not fill the memory. */
const longestEvent = 1024 * 1024;

export class EventParser {
  readonly #decoder = new TextDecoder();
  /** Of the event that is not complete. */
  #rest = '';

  /** The events that `bytes` complete. */
  push(bytes: Uint8Array): StreamEvent[] {
    const text = this.#rest + this.#decoder.decode(bytes, { stream: true });
    const events = text.split(/\r?\n\r?\n/);
    this.#rest = events.pop()!;
    if (this.#rest.length > longestEvent) throw new RangeError('an event without an end');
    return events.map(eventOf);
  }
}

function eventOf(text: string): StreamEvent {
  const fields = new Map<string, string>();
  for (const line of text.split(/\r?\n/)) {
    const [, name = '', value = ''] = /^([^:]*):? ?(.*)/.exec(line) ?? [];
    const before = fields.get(name);
    fields.set(name, before === undefined ? value : `${before}\n${value}`);
  }
  return Object.fromEntries(fields);
}
