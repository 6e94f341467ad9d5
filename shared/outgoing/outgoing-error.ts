/**
 * Why a request to an address of a tenant's got no response. The first three say that it must not
 * be sent, now or later.
 */
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

/**
 * Its message names no more of an address than the origin, and it has no cause: the original may
 * hold the whole request.
 */
export class OutgoingError extends Error {
  readonly reason: OutgoingReason;
  constructor(reason: OutgoingReason, message: string) {
    super(message);
    this.name = 'OutgoingError';
    this.reason = reason;
  }
}
