/** Server-Sent Events (HTML, 9.2) out of a stream of bytes. EventSource can't send a credential. */

export interface StreamEvent {
  readonly event: string;
  readonly data: string;
  readonly id: string | undefined;
}

/** Longer than any event that Strata sends: one without an end must not fill the memory. */
const longestEvent = 4 * 1024 * 1024;

export class EventParser {
  readonly #decoder = new TextDecoder();
  /** Pieces of the line that is not complete. */
  #rest: string[] = [];
  #data: string[] = [];
  /** Of what is kept for the event that is not complete. */
  #length = 0;
  #event = '';
  #id: string | undefined;
  /** How long the server wants to be left alone after the end; undefined where it did not say. */
  retryMs: number | undefined;

  /** The events that `bytes` complete. */
  push(bytes: Uint8Array): StreamEvent[] {
    const text = this.#decoder.decode(bytes, { stream: true });
    this.#length += text.length;
    if (this.#length > longestEvent) throw new RangeError('an event without an end');
    const [first = '', ...others] = text.split('\n');
    this.#rest.push(first);
    const events: StreamEvent[] = [];
    for (const next of others) {
      const event = this.#read(this.#rest.join(''));
      if (event) events.push(event);
      this.#rest = [next];
    }
    return events;
  }

  /** An empty line ends an event. */
  #read(given: string): StreamEvent | undefined {
    const line = given.endsWith('\r') ? given.slice(0, -1) : given;
    if (line === '') {
      const event = { event: this.#event, data: this.#data.join('\n'), id: this.#id };
      this.#event = '';
      this.#data = [];
      this.#length = 0;
      return event.data === '' ? undefined : event;
    }
    const [, name = '', value = ''] = /^([^:]*):? ?(.*)$/s.exec(line) ?? [];
    if (name === 'event') this.#event = value;
    else if (name === 'data') this.#data.push(value);
    else if (name === 'id') this.#id = value;
    else if (name === 'retry' && /^\d+$/.test(value)) this.retryMs = Number(value);
    return undefined;
  }
}
