/**
 * The platform's documents: global configuration, service types, and the bounds that every tenant
 * has to keep to.
 */
import type { VNode } from 'preact';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { hrefOf } from '../address.ts';
import { usePages } from '../pages.ts';
import { FilterField, Filters } from '../fields.tsx';
import { Table } from '../lists.tsx';
import { Button, Code, Value } from '../inline.tsx';
import { Heading, ProblemBox } from '../parts.tsx';
import { DocumentEditor } from './document-editor.tsx';
import type { DocumentKind } from './document-kinds.ts';
import { EmergencyStop } from './emergency-stop.tsx';
import { KindList } from './kind-list.tsx';
import {
  globalEntries,
  platformBounds,
  platformBudgets,
  platformChangePolicy,
  serviceTypes,
} from './platform-kinds.ts';
import type { ScreenProperties } from './screen.ts';

function listOrOne(kind: DocumentKind, rest: readonly string[]): VNode {
  const count = kind.idFields?.length ?? 1;
  const id = rest.slice(0, count).join('/');
  if (rest.length >= count && id !== '')
    return <DocumentEditor key={`${kind.name}/${id}`} kind={kind} id={id} />;
  return (
    <section>
      <Heading title={kind.plural ?? kind.title} about={kind.about} />
      <Filters class="filter">
        <FilterField placeholder="name or value" />
      </Filters>
      <KindList kind={kind} />
    </section>
  );
}

export const GlobalConfiguration = ({ rest }: ScreenProperties): VNode =>
  listOrOne(globalEntries, rest);
export const ServiceTypes = ({ rest }: ScreenProperties): VNode => listOrOne(serviceTypes, rest);

export const PlatformBounds = (): VNode => (
  <section>
    <DocumentEditor key="bounds" kind={platformBounds} id="" />
    <div class="panels">
      <EmergencyStop
        address="/config/bounds"
        whose="every tenant"
        mayWrite={true}
        hasImpact={true}
      />
    </div>
    <Violations address="/config/bounds/violations" />
  </section>
);

export const PlatformChangePolicy = (): VNode => (
  <DocumentEditor key="change-policy" kind={platformChangePolicy} id="" />
);

export const PlatformBudgets = (): VNode => (
  <DocumentEditor key="budgets" kind={platformBudgets} id="" />
);

type Violation = ResultOf<'tenant-config.bounds.violations'>['items'][number];

/**
 * What is stored and outside of a bound: it stays, and is held within the bound when it is read.
 */
function Violations({ address }: { readonly address: string }): VNode {
  const { items, isComplete, problem, more, reload } = usePages<Violation>(address);
  return (
    <section aria-label="Outside of a guardrail">
      <h2>Stored, and outside of a guardrail</h2>
      <ProblemBox problem={problem} retry={reload} />
      <Table
        label="Outside of a guardrail"
        items={items}
        empty={isComplete && 'Nothing that tenants have stored is outside of a guardrail.'}
        columns={[
          ['Tenant', (each) => <bdi title={each.tenant_id}>{each.tenant_name}</bdi>],
          [
            'Document',
            (each) => (
              <>
                {each.config_type.replaceAll('_', ' ')}{' '}
                <bdi>{each.resource_id === each.tenant_id ? '' : each.resource_id}</bdi>
              </>
            ),
          ],
          ['Where', (each) => <Code>{each.path}</Code>],
          ['Value', (each) => <Value value={each.value} longest={80} />],
          [
            'Guardrail',
            (each) => (
              <>
                <Value value={each.rule} longest={80} /> of the {each.by.replace('_', ' ')}
              </>
            ),
          ],
        ]}
      />
      {items && !isComplete && (
        <p class="paging">
          <Button class="small" says="Look further" onClick={more} />
        </p>
      )}
      <p class="fine">
        The <a href={hrefOf('/platform/plan')}>plan</a> says before a write what it would put
        outside of a guardrail.
      </p>
    </section>
  );
}
