/** Who of the platform has looked into the tenant, and why; an open visit is ended here. */
import type { VNode } from 'preact';
import type { Visit } from '../../shared/contracts/visits.ts';
import { ofTenant, tenantShown } from '../address.ts';
import { useAction } from '../action.ts';
import { RowButton, ShowMore, Table } from '../lists.tsx';
import { usePages } from '../pages.ts';
import { Time } from '../inline.tsx';
import { ProblemBox, Section } from '../parts.tsx';
import { endVisit } from '../visit.tsx';

export function Visits(): VNode | null {
  const { items, isComplete, problem, more, reload } = usePages<Visit>(ofTenant('/visits'));
  const ending = useAction();
  const end = ({ id }: Visit): void =>
    void ending.run(async () => {
      await endVisit(tenantShown.value, id);
      reload();
    });
  if (items?.length === 0) return null;
  return (
    <Section title="Visits of the platform">
      <p class="muted">
        A platform administrator read this tenant as a reviewer does, and could change and decide
        nothing.
      </p>
      <ProblemBox problem={problem ?? ending.problem} retry={reload} />
      <Table
        label="Visits of the platform"
        items={items}
        columns={[
          [
            'Begun',
            (visit) => (
              <>
                <Time at={visit.created_at} />
                <div class="fine">
                  <code>{visit.user_id}</code>
                </div>
              </>
            ),
          ],
          ['Reason', (visit) => <bdi>{visit.reason}</bdi>],
          ['Ended', (visit) => (visit.ended_at === null ? 'open' : <Time at={visit.ended_at} />)],
          [
            { unseen: 'Actions' },
            (visit) =>
              visit.ended_at === null && (
                <RowButton
                  says="End"
                  label="End the visit"
                  isDangerous
                  onClick={() => end(visit)}
                />
              ),
          ],
        ]}
      />
      {items && !isComplete && <ShowMore onClick={more} />}
    </Section>
  );
}
