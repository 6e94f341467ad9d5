/** Why a request got no answer. The first three say that it must not be sent, however often it is tried. */
export type OutgoingReason =
  | 'url_refused'
  | 'address_refused'
  | 'request_invalid'
  | 'name_not_resolved'
  | 'connection_failed'
  | 'tls_failed'
  | 'timed_out'
  | 'answer_invalid'
  | 'answer_too_large';

/** Message and fields never hold more of an address than its origin. */
export class OutgoingError extends Error {
  readonly reason: OutgoingReason;
  constructor(reason: OutgoingReason, message: string) {
    super(message);
    this.name = 'OutgoingError';
    this.reason = reason;
  }
}
