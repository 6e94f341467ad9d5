/** Which documents a key, or the trust in a workload, can be narrowed to. */
import type { Contract } from '../../../shared/contracts/contract.ts';
import { contractTable } from '../../../shared/contracts/index.ts';
import type { NarrowedTo } from '../../../shared/contracts/narrow-keys.ts';
import { parametersIn } from '../../../shared/documents/document-paths.ts';
import type { Problem } from '../../../shared/errors.ts';
import { pathWith } from '../../../shared/narrow-keys.ts';
import { problemsOf } from '../../../shared/schema/validate.ts';

const documents = (Object.values(contractTable) as Contract[]).flatMap(
  ({ narrow, rest, params }) =>
    rest?.method === 'PUT' && typeof narrow === 'object' && narrow.includes('documents')
      ? [{ template: rest.path, params }]
      : [],
);

/** Whether a call about a document of this tenant, or of the platform, can have exactly this path. */
const isDocument = (path: string, tenantId: string | null): boolean =>
  documents.some(({ template, params }) => {
    const address = parametersIn(path, template);
    if (!address || (address.tenant_id ?? tenantId) !== tenantId) return false;
    const isValid = ([name, value]: [string, string]): boolean =>
      problemsOf(params.properties[name]!, value).length === 0;
    return pathWith(template, address) === path && Object.entries(address).every(isValid);
  });

/** What is wrong with documents that nothing could be done to, by JSON Pointer. */
export const documentProblems = (to: NarrowedTo | undefined, tenantId: string | null): Problem[] =>
  (to?.documents ?? []).flatMap((path, index) =>
    isDocument(path, tenantId)
      ? []
      : [
          {
            path: `/narrowed_to/documents/${index}`,
            message: 'is not the path of a document of this tenant or of the platform',
          },
        ],
  );
