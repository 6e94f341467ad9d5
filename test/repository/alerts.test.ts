/** Alerts, their tests, the dashboard and the runbooks speak of the same things. */
import { describe, expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { errorTable } from '../../shared/contracts/error-codes.ts';
import { alerts, alertTests, dashboardExpressions, metricsIn } from '../support/alerts.ts';

const root = join(import.meta.dirname, '../..');
const textOf = (file: string): string => readFileSync(join(root, file), 'utf8');
const names = alerts.map(({ alert }) => alert);

describe.each(alerts.map((rule): [string, (typeof alerts)[number]] => [rule.alert, rule]))(
  '%s',
  (name, { labels, annotations, expr }) => {
    test('says how urgent it is, what happened and where its runbook is', () => {
      expect(['critical', 'warning']).toContain(labels.severity);
      expect(annotations.summary).toMatch(/\S{2}/);
      expect(annotations.runbook).toBe(`docs/runbooks.md#${name.toLowerCase()}`);
    });

    test('is about a figure', () => expect(expr).toMatch(/\b(?:up\{|strata_|process_|nodejs_)/));

    test('has a test in which it fires and one in which it is silent', () => {
      const firings = alertTests
        .flatMap(({ alert_rule_test: tests }) => tests)
        .filter(({ alertname }) => alertname === name)
        .map(({ exp_alerts: expected }) => expected.length > 0);
      expect(firings).toContain(true);
      expect(firings).toContain(false);
    });
  },
);

test('no name is given twice, and no test is about an alert that is not there', () => {
  expect(new Set(names).size).toBe(names.length);
  const tested = alertTests.flatMap((each) => each.alert_rule_test.map((one) => one.alertname));
  expect([...new Set(tested)].sort()).toEqual([...names].sort());
});

test('the runbooks have a heading for each alert and for each 5xx code, and for nothing else', () => {
  const headings = [...textOf('docs/runbooks.md').matchAll(/^### (.+)$/gm)].map(([, each]) => each);
  const codes = Object.entries(errorTable)
    .filter(([, { status }]) => status >= 500)
    .map(([code]) => code);
  expect([...headings].sort()).toEqual([...names, ...codes].sort());
});

test('each runbook says what to do', () => {
  const runbooks = textOf('docs/runbooks.md').split(/^### .+$/m);
  for (const text of runbooks.slice(1)) expect(text.trim().length).toBeGreaterThan(30);
});

test('what alerts and dashboard ask for is in the table of figures', () => {
  const [, documented = ''] = textOf('docs/operations/watch.md').split('\n## Metrics\n');
  const expressions = [...alerts.map(({ expr }) => expr), ...dashboardExpressions];
  const own = expressions.flatMap(metricsIn).filter((name) => name.startsWith('strata_'));
  expect(own.length).toBeGreaterThan(20);
  for (const name of own)
    expect(documented).toContain(`\`${name.replace(/_(bucket|sum|count)$/, '')}\``);
});

test('the dashboard asks for the source of data that its reader chose', () => {
  expect(textOf('deploy/grafana/strata.json')).not.toMatch(/"uid": "(?!\$\{datasource\}|strata")/);
});
