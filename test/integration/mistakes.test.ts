/** Issue 19: what Gatehouse says about the most likely mistakes of policy authors. docs/reference/mistakes.md is generated from them. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

import { joined, objectsOf, parseDocuments } from '../../src/cli/review/input.ts';
import { createKinds } from '../../src/cli/review/kinds.ts';
import { createReviewer } from '../../src/cli/review/reviewer.ts';
import { createPolicyWarnings } from '../../src/runtime/policies/author-review.ts';
import { createStorage } from '../../src/machinery/storage/storage.ts';
import { requestOf } from '../support/admission/handler.ts';
import { silent } from '../support/runtime/fixtures.ts';
import { EXPRESSIONS } from '../mistakes/expressions.ts';
import { FIELDS } from '../mistakes/fields.ts';
import { policyText, type Mistake } from '../mistakes/mistake.ts';
import { SCOPE } from '../mistakes/scope.ts';

const MISTAKES = [...FIELDS, ...EXPRESSIONS, ...SCOPE];
const CRDS = readFileSync(join(import.meta.dirname, '..', 'mistakes', 'crds.yaml'), 'utf8');
const read = (text: string, file: string) => joined(parseDocuments(text, file).found.map(objectsOf)).found;

function review(text: string): string {
  const existing = [...read(CRDS, 'crds.yaml'), ...read(text, 'p.yaml')];

  try {
    createReviewer(
      { namespace: 'default', reviewed: [], existing },
      { handlers: [], ownNamespace: 'gatehouse-system', now: new Date(0) },
    );
    return '';
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

const nameOf = (mistake: Mistake) => `m-${MISTAKES.indexOf(mistake)}`;
const documents = MISTAKES.map((one) => policyText(one, nameOf(one)));
const text = documents.join('---\n');
const lines = text.split('\n');

const said = Map.groupBy(
  review(text)
    .split('\n')
    .flatMap((problem) => {
      const [, line, name = '', says = ''] =
        /^p\.yaml:(\d+)(?::\d+)? \(document \d+\): AdmissionPolicy (\S+): (.*)$/s.exec(problem) ?? [];
      return line === undefined ? [] : [{ name, says, line: lines[Number(line) - 1]?.trim() }];
    }),
  ({ name }) => name,
);

test.each(MISTAKES.map((one) => [one.mistake, one] as const))('review: %s', (_mistake, mistake) => {
  const problems = said.get(nameOf(mistake)) ?? [];
  expect(problems.map(({ says }) => says)).toEqual(mistake.says);
  expect(problems[0]?.line).toBe(mistake.line);
});

const kinds = createKinds(read(CRDS, 'crds.yaml'), createStorage());
const warn = createPolicyWarnings({
  discovery: {
    resolve: ({ group, resource }) => Promise.resolve(kinds.registry.stored(group, resource)),
    servedIn: (group) => Promise.resolve(kinds.servedIn(group) ?? []),
    groups: () => Promise.resolve(kinds.groups),
    serverVersion: () => Promise.resolve({ major: 1, minor: 37, gitVersion: 'v1.37.2' }),
  },
  schemas: (resource, versions) => Promise.resolve(kinds.schemas(resource, versions)),
  environment: { ownNamespace: 'gatehouse-system' },
  strict: false,
  log: silent,
});

test.each(
  MISTAKES.filter(({ isSeenByApiServer }) => isSeenByApiServer !== true).map(
    (one) => [one.mistake, one] as const,
  ),
)('kubectl apply: %s', async (_mistake, mistake) => {
  const [policy] = read(policyText(mistake, 'servers'), 'p.yaml');
  const request = requestOf({ operation: 'CREATE', object: policy?.object });
  const decision = await warn(request, new AbortController().signal);
  const warnings = decision.kind === 'allow' ? decision.warnings : [];
  // A review also knows which CustomResourceDefinition the input lacks.
  const expected = mistake.says.map((says) => `not enforced: ${says.replace(/ \(its Custom.*\)$/, '')}`);
  expect(warnings.map((text) => text.replace(/ \(line \d+, column \d+\)/, ''))).toEqual(expected);
});
