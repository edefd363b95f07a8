/** The policies of deploy/examples/library: each accepts and refuses something, and the API server can enforce most checks. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

import { ROOT } from '../support/doc-pages.ts';
import { compileFolder, LIBRARY, wordsOf, type LibraryPolicy } from '../support/policy-library.ts';
import { runReview } from '../support/review-command.ts';

const POLICIES = compileFolder(LIBRARY);
const CHECKS = POLICIES.flatMap(({ checks }) => checks);

interface Result {
  readonly decision: string;
  readonly policies: readonly string[];
  readonly message?: string;
  readonly patch: readonly object[];
}
interface Reviewed {
  readonly suites: readonly { readonly tests: readonly Tested[] }[];
}
interface Tested {
  readonly failures: readonly object[];
  readonly result: Result;
}

test('each policy accepts an object, and each check refuses one that violates nothing else', async () => {
  const { code, stdout } = await runReview(['--suite', 'deploy/examples/library/tests', '-o', 'json']);
  const all = (JSON.parse(stdout) as Reviewed).suites.flatMap(({ tests }) => tests);
  expect(all.filter(({ failures }) => failures.length > 0)).toEqual([]);
  expect(code).toBe(0);
  const results = all.map(({ result }) => result);
  const accepting = results.filter(({ decision }) => decision === 'allowed');
  const refusals = results.flatMap(({ decision, message }) => (decision === 'denied' ? [message ?? ''] : []));
  const changing = accepting.filter(({ patch }) => patch.length > 0);
  for (const { name, checks } of POLICIES) {
    expect(accepting.filter(({ policies }) => policies.includes(name)).length, name).toBeGreaterThan(0);
    for (const { check } of checks) {
      const words = wordsOf(name, check);
      const found = refusals.filter((message) => words.every((one) => message.includes(one)));
      if (check === 'defaults') expect(changing.some(({ policies }) => policies.includes(name))).toBe(true);
      else expect(found, `${name}: ${check}`).not.toEqual([]);
    }
  }
  for (const message of refusals) {
    // A privileged container that can't escalate its privileges can't exist, so it violates two policies.
    const violated = message.includes('(policy pods-privileged)') ? 2 : 1;
    expect(message.match(/\(policy /g)).toHaveLength(violated);
  }
});

test('the API server can enforce most checks', () => {
  const left = POLICIES.flatMap(({ name, checks }) =>
    checks.flatMap((one) => (one.by === 'Webhook' ? [[name, one.check, one.reason]] : [])),
  );
  expect(POLICIES).toHaveLength(30);
  expect(1 - left.length / CHECKS.length).toBeGreaterThan(0.6);
  const params =
    'it reads params of a built-in kind: kube-apiserver can miss changes of a ConfigMap after another policy is deleted';
  expect(left).toEqual([
    ['image-registries-of-teams', 'rule registry-of-team', params],
    ['ingress-unique-hosts', 'unique host', 'it compares with all other objects'],
    ['ingress-backends', 'reference backend', 'it reads another object'],
  ]);
});

/** The last column of docs/reference/policy-library.md. */
function enforcersOf({ checks }: LibraryPolicy): string {
  const left = checks.flatMap((one) => (one.by === 'Webhook' ? [`${one.check}: ${one.reason}`] : []));
  return [
    ...(left.length < checks.length ? ['API server'] : []),
    ...(left.length === 0 ? [] : [`webhook (${left.join('; ')})`]),
  ].join('; ');
}

test('docs/reference/policy-library.md lists every policy, and who enforces it', () => {
  const page = readFileSync(join(ROOT, 'docs', 'reference', 'policy-library.md'), 'utf8');
  const rows = [...page.matchAll(/^\| `([a-z-]+)` +\| .* \| ([^|]+?) +\|$/gm)].map(([, name, by]) => [
    name,
    by,
  ]);
  expect(new Map(rows as [string, string][])).toEqual(
    new Map(POLICIES.map((policy) => [policy.name, enforcersOf(policy)])),
  );
  const enforced = CHECKS.filter(({ by }) => by === 'APIServer').length;
  expect(page).toContain(`${enforced} of their ${CHECKS.length} checks`);
});
