/** The handlers of a document's actions. */
import { named, type Request } from '../contract-runtime/request.ts';
import type { WriteVerb } from './document.ts';

/** The handlers of a kind that has all four actions, whose names begin so. */
export const handlersOf = <
  const Actions extends string,
  Of extends Readonly<Record<'get' | WriteVerb, unknown>>,
>(
  actions: Actions,
  { get, put, patch, delete: remove }: Of,
) => named(actions, { get, put, patch, delete: remove } as Pick<Of, 'get' | WriteVerb>);

type Write<Params, Written> = (params: Params, request: Request) => Promise<Written>;

/** The actions of a document. */
export interface Verbs<Get, Put, Patch, Delete, Written> {
  readonly get: Get;
  readonly put: Write<Put, Written>;
  readonly patch: Write<Patch, Written>;
  readonly delete: Write<Delete, Written>;
}

/** The handlers of a document, with its writes answered by `tryIt` where `asks` says so. */
export function withTrials<Get, Put, Patch, Delete, Written, Asked, Answer>(
  documents: Verbs<Get, Put, Patch, Delete, Written>,
  asks: (params: NoInfer<Asked>) => boolean,
  tryIt: (verb: WriteVerb, params: Asked, request: Request) => Promise<Answer>,
) {
  const orTry =
    <Params>(verb: WriteVerb, write: Write<Params, Written>) =>
    async (params: Params & Asked, request: Request) =>
      asks(params) ? tryIt(verb, params, request) : write(params, request);
  return {
    get: documents.get,
    put: orTry('put', documents.put),
    patch: orTry('patch', documents.patch),
    delete: orTry('delete', documents.delete),
  };
}
