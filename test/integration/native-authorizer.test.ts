/** Rules that ask the authorizer: the webhook and the API server's own policy give the same verdict. */
import { expect, test } from 'vitest';

import { compileNative } from '../../src/admission/native/native-policy.ts';
import { validate } from '../../src/admission/policy/validate.ts';
import type { CelDecision, CelQuestion } from '../../src/cel/library/authorizer.ts';
import type { JsonObject } from '../../src/json/json.ts';
import { ofJson } from '../../src/machinery/api-object.ts';
import { compilePolicy } from '../../src/machinery/policies/compile-policy.ts';
import { evaluatePolicy } from '../../src/machinery/policies/evaluate-policy.ts';
import type { ResourceType } from '../../src/machinery/resource-type.ts';
import { clusterOf, createRequest, GROUP, policyOf } from '../support/admission/policy.ts';

const OPTIONS = { ownNamespace: 'gatehouse-system', restorers: [], others: [] };
const TYPE = {
  group: GROUP,
  version: 'v1',
  resource: 'servers',
  kind: 'Server',
  namespaced: true,
  custom: true,
} as unknown as ResourceType; // what the evaluation reads

/** Allows paths, the verb `use`, and everything to one service account; fails for Secrets. */
function answer(question: CelQuestion): CelDecision {
  if (question.kind === 'path') return { allowed: true, reason: 'paths' };
  if (question.serviceAccount?.name === 'cart') return { allowed: true, reason: 'cart' };
  if (question.resource === 'secrets') return { allowed: false, reason: '', error: 'role gone' };
  return { allowed: question.verb === 'use', reason: question.name };
}

const SECRETS = "authorizer.group('').resource('secrets').check('get')";

test.each([
  ["authorizer.requestResource.check('use').allowed()", true],
  ["authorizer.requestResource.check('get').allowed()", false],
  ["authorizer.requestResource.check('use').reason() == 'a'", true],
  ["authorizer.path('/x').check('get').allowed()", true],
  ["authorizer.serviceAccount('shop', 'cart').group('').resource('secrets').check('get').allowed()", true],
  ["authorizer.serviceAccount('shop', 'till').group('').resource('pods').check('get').allowed()", false],
  [`${SECRETS}.errored() && ${SECRETS}.error() == 'role gone'`, true],
  [`${SECRETS}.allowed() || authorizer.path('/x').check('get').allowed()`, true],
  ["['a', 'b'].all(name, authorizer.group('').resource('pods').name(name).check('use').allowed())", true],
  [
    "['a', 'b', 'c'].all(name, authorizer.group('').resource('pods').name(name).check('use').allowed())",
    false,
  ],
  ["variables.may.allowed() && authorizer.path('/x').check('get').allowed()", true],
])('%s is %s for both', async (expression, isAllowed) => {
  const policy = policyOf({
    variables: [{ name: 'may', expression: "authorizer.requestResource.check('use')" }],
    validate: { rules: [{ expression, message: 'refused' }] },
  });
  const request = createRequest({ units: 3 });

  const { checks, pairs } = compileNative(policy, OPTIONS);
  expect(checks.map(({ by }) => by)).toEqual(['APIServer']);
  const native = compilePolicy((pairs[0]?.policy as unknown as { spec: JsonObject }).spec);
  const user = { username: 'ada', groups: ['authors'] };
  const attributes = {
    operation: 'CREATE' as const,
    type: TYPE,
    subresource: '',
    namespace: 'store',
    name: 'a',
    user,
    dryRun: false,
    options: {},
  };
  const object = request.object === undefined ? undefined : ofJson(request.object);
  const question = { uid: 'u', version: 'v1', attributes, seen: TYPE, object, oldObject: undefined } as const;
  const { failures } = evaluatePolicy({ ...native, ignoresFailures: false }, question, undefined, answer);
  expect(failures.length === 0).toBe(isAllowed);

  const cluster = clusterOf();
  const access = {
    known: () => undefined,
    ask: (_user: unknown, asked: CelQuestion) => Promise.resolve(answer(asked)),
  };
  const decision = await validate(request, [policy], { ...cluster, world: { ...cluster.world, access } });
  expect(decision.kind).toBe(isAllowed ? 'allow' : 'deny');
});
