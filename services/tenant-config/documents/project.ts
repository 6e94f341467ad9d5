/** A tenant's cloud projects, one document each. */
import { isDeepStrictEqual } from 'node:util';
import { ProjectConfig, type ProjectAddress } from '../../../shared/contracts/projects.ts';
import type { DocumentKind } from '../../../shared/documents/document-kind.ts';
import { projectBudgetProblems } from '../../../shared/budgets/project-budget.ts';
import { sameAsInPath } from '../rules/checks.ts';
import { ProjectEntity } from '../schema.ts';
import { currencyOfProjects, currencyOfTenant, platformCurrency } from '../stores/currency.ts';
import { inTable } from './tenant-document.ts';

type Currency = string | undefined;

/** A rollback says nothing and may change everything. */
const mayChangeCurrency = (body: unknown): boolean =>
  body === undefined ||
  ['budget', 'enforce_budget'].some((field) => Object.hasOwn(Object(body), field));

export const projectKind: DocumentKind<ProjectAddress, ProjectConfig, Currency> = {
  ...inTable(ProjectEntity, {
    auditName: 'project',
    configType: 'project_config',
    actions: 'tenant-config.projects',
    resourceId: ({ project_id }: ProjectAddress) => project_id,
  }),
  schema: ProjectConfig,
  /** The platform's currency, which comes first. What says nothing of its own keeps it. */
  prepare: async (_address, request, body) =>
    mayChangeCurrency(body) ? platformCurrency(request) : undefined,
  complete: (draft, { project_id }) => ({ project_id, ...draft }),
  check: ({ next, address, context }) => ({
    refused: [
      ...sameAsInPath('project_id', next, address),
      ...projectBudgetProblems(next, context),
    ],
  }),
  async checkInTransaction(manager, { tenant_id, project_id }, next, current, ofPlatform) {
    if (!next?.enforce_budget || ofPlatform !== undefined) return [];
    const { budget, enforce_budget } = current ?? {};
    if (enforce_budget && isDeepStrictEqual(budget, next.budget)) return [];
    const currency =
      (await currencyOfTenant(manager, tenant_id)) ??
      (await currencyOfProjects(manager, tenant_id, project_id));
    return projectBudgetProblems(next, currency);
  },
};
