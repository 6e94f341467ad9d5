/** The alerts with their tests, and the dashboard, as tests read them. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { binary } from './servers.ts';

const root = join(import.meta.dirname, '../..');
export const prometheusFolder = join(root, 'deploy/prometheus');

export interface Alert {
  readonly alert: string;
  readonly expr: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}
interface RuleFile {
  readonly groups: readonly { readonly rules: readonly Alert[] }[];
}
interface RuleTests {
  readonly tests: readonly {
    readonly alert_rule_test: readonly {
      readonly alertname: string;
      readonly exp_alerts: readonly unknown[];
    }[];
  }[];
}
interface Dashboard {
  readonly panels: readonly { readonly targets: readonly { readonly expr: string }[] }[];
}

const textOf = (file: string): string => readFileSync(join(root, 'deploy', file), 'utf8');

export const alerts = (parse(textOf('prometheus/strata.rules.yml')) as RuleFile).groups.flatMap(
  ({ rules }) => rules,
);
export const alertTests = (parse(textOf('prometheus/strata.rules.test.yml')) as RuleTests).tests;
export const dashboardExpressions = (
  JSON.parse(textOf('grafana/strata.json')) as Dashboard
).panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));

/** The metrics that an expression asks for, each once; not `up`, which is Prometheus' own. */
export const metricsIn = (expression: string): string[] => [
  ...new Set(expression.match(/\b(?:strata|process|nodejs)_[a-z0-9_]+/g)),
];

/** The metrics of an expression, with the labels that it asks of each. */
export const selectorsIn = (expression: string): { metric: string; labels: string[] }[] =>
  [...expression.matchAll(/\b((?:strata|process|nodejs)_[a-z0-9_]+)(?:\{([^}]*)\})?/g)].map(
    ([, metric, matchers = '']) => ({
      metric: metric!,
      labels: [...matchers.matchAll(/([a-z_]+)\s*(?:=~|!~|!=|=)\s*"/g)].map(([, label]) => label!),
    }),
  );

export interface Ended {
  readonly code: number;
  readonly output: string;
}

/** Runs promtool, with `input` on its standard input. */
export const promtool = (argv: readonly string[], input = ''): Promise<Ended> =>
  new Promise((resolve) => {
    const child = execFile(
      binary('promtool', 'prometheus'),
      argv,
      { cwd: prometheusFolder },
      (error, stdout, stderr) =>
        resolve({ code: Number(error?.code ?? 0), output: `${stdout}${stderr}` }),
    );
    child.stdin?.end(input);
  });
