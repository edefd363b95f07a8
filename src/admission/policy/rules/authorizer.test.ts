/** Expressions that ask what the user of a request may do. */
import { expect, test } from 'vitest';

import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import type { CelDecision, CelQuestion } from '../../../cel/library/authorizer.ts';
import {
  clusterOf,
  compileSpec,
  createRequest,
  GROUP,
  policyOf,
} from '../../../../test/support/admission/policy.ts';
import { forAudit, hasAudit } from '../audit.ts';
import { MOST_QUESTIONS } from '../expressions/authorizations.ts';
import { validate } from '../validate.ts';
import type { AccessAnswers } from '../world.ts';

const NO = { allowed: false, reason: '' };
const YES = { allowed: true, reason: 'RBAC: allowed by a binding' };

interface Answers {
  readonly known?: (question: CelQuestion) => CelDecision | undefined;
  readonly live?: (question: CelQuestion) => CelDecision;
}

/** A cluster whose authorizer gives these answers, and its live questions. */
function clusterThat({ known = () => undefined, live = () => NO }: Answers) {
  const asked: CelQuestion[] = [];
  const access: AccessAnswers = {
    known: (_user, question) => known(question),
    ask: (_user, question) => {
      asked.push(question);
      return new Promise((resolve) => {
        resolve(live(question));
      });
    },
  };
  const cluster = clusterOf();
  return { asked, context: { ...cluster, world: { ...cluster.world, access } } };
}

const rules = (...expressions: readonly string[]): Partial<AdmissionPolicySpec> => ({
  validate: { rules: expressions.map((expression) => ({ expression })) },
});
const MAY = "authorizer.group('').resource('secrets').namespace('store').check('get').allowed()";

async function decide(spec: Partial<AdmissionPolicySpec>, answers: Answers) {
  const { asked, context } = clusterThat(answers);
  return { decision: await validate(createRequest({ units: 3 }), [policyOf(spec)], context), asked };
}

test.each([
  [
    'authorizer.requestResource.subresource("x").check("use")',
    { resource: 'servers', group: GROUP, namespace: 'store', name: 'a', subresource: 'x', verb: 'use' },
  ],
  ['authorizer.path("/healthz").check("get")', { kind: 'path', path: '/healthz', verb: 'get' }],
  [
    'authorizer.serviceAccount("shop", "cart").group("").resource("pods").name("p").check("get")',
    { serviceAccount: { namespace: 'shop', name: 'cart' }, resource: 'pods', name: 'p' },
  ],
  [
    'authorizer.group("").resource("pods").fieldSelector("spec.nodeName=n").labelSelector("a=b").check("list")',
    { fieldSelector: 'spec.nodeName=n', labelSelector: 'a=b' },
  ],
])('%s asks what it says', async (check, question) => {
  const { asked, decision } = await decide(rules(`${check}.allowed()`), { live: () => YES });
  expect(decision.kind).toBe('allow');
  expect(asked).toEqual([expect.objectContaining(question)]);
});

test('a rule sees the reason and the error of a decision', async () => {
  const answers = { live: () => ({ allowed: false, reason: 'no', error: 'role gone' }) };
  const check = "authorizer.path('/a').check('get')";
  const expression = `${check}.errored() && ${check}.error() == 'role gone'`;
  expect(await decide(rules(expression, `${check}.reason() == 'no'`), answers)).toMatchObject({
    decision: { kind: 'allow' },
    asked: [{ path: '/a' }],
  });
});

test.each([
  ["authorizer.path(' ').check('get').allowed()", 'path must not be empty'],
  ["authorizer.group('').resource('').check('get').allowed()", 'resource must not be empty'],
  ["authorizer.serviceAccount('a', '-').path('/').check('get').allowed()", 'Invalid service account name'],
  [
    "authorizer.serviceAccount('.', 'a').path('/').check('get').allowed()",
    'Invalid service account namespace',
  ],
])('%s fails the way it fails in the API server', async (expression, problem) => {
  const { decision, asked } = await decide(rules(expression), { live: () => YES });
  expect(decision).toMatchObject({ kind: 'deny', message: expect.stringContaining(problem) as string });
  expect(asked).toEqual([]);
});

test('an answer of the last seconds may allow; before a refusal, the API server is asked', async () => {
  const allowed = await decide(rules(MAY), { known: () => YES });
  expect(allowed).toMatchObject({ decision: { kind: 'allow' }, asked: [] });
  const granted = await decide(rules(MAY), { known: () => NO, live: () => YES });
  expect(granted.decision.kind).toBe('allow');
  expect(granted.asked).toHaveLength(1);
  const refused = await decide(rules(`!${MAY}`), { known: () => YES, live: () => YES });
  expect(refused.decision.kind).toBe('deny');
  expect(refused.asked).toHaveLength(1);
});

test('without an answer, the client tries again; a policy that only warns refuses nothing', async () => {
  const live = () => {
    throw new Error('connection refused');
  };
  const { decision } = await decide(rules(MAY), { live });
  const message = expect.stringContaining(
    'could not evaluate its rules or ask the API server what the user may do',
  ) as string;
  expect(decision).toMatchObject({ kind: 'retry', message });
  const warning = await decide({ ...rules(MAY), enforcement: 'Warn' }, { live });
  expect(warning.decision.kind).toBe('allow');
});

test('without an API server to ask, nothing is guessed', async () => {
  expect(await validate(createRequest({}), [policyOf(rules(MAY))], clusterOf())).toMatchObject({
    kind: 'retry',
  });
});

test('answers can lead to other questions, and each is asked once', async () => {
  const may = (name: string) =>
    `authorizer.group('').resource('pods').name('${name}').check('get').allowed()`;
  const first = `${may('a')} && ${may('b')}`;
  const { decision, asked } = await decide(rules(first, `${may('b')} && ${may('c')}`), { live: () => YES });
  expect(decision.kind).toBe('allow');
  expect(asked.map((one) => (one.kind === 'resource' ? one.name : ''))).toEqual(['a', 'b', 'c']);
});

test('an expression may ask twice; variables count separately', async () => {
  const may = (name: string) =>
    `authorizer.group('').resource('pods').name('${name}').check('get').allowed()`;
  const three = ['a', 'b', 'c'].map(may).join(' && ');
  const refused = await decide({ ...rules(three), failurePolicy: 'Ignore' }, { live: () => YES });
  expect(refused.decision).toMatchObject({
    kind: 'deny',
    message: expect.stringContaining('an expression may ask the authorizer 2 times') as string,
  });
  const variables = [{ name: 'both', expression: `${may('a')} && ${may('b')}` }];
  const allowed = await decide({ ...rules(`variables.both && ${may('c')}`), variables }, { live: () => YES });
  expect(allowed.decision.kind).toBe('allow');
});

test('the number of questions for one request is limited', async () => {
  const asking = Array.from(
    { length: MOST_QUESTIONS + 1 },
    (_, index) => `authorizer.path('/${index}').check('get').allowed()`,
  );
  const { decision, asked } = await decide(rules(...asking), { live: () => YES });
  expect(decision).toMatchObject({
    kind: 'deny',
    message: expect.stringContaining(
      `may ask the authorizer ${MOST_QUESTIONS} different questions`,
    ) as string,
  });
  expect(asked).toHaveLength(MOST_QUESTIONS);
  const enough = await decide(rules(...asking.slice(1)), { live: () => YES });
  expect(enough.decision.kind).toBe('allow');
});

test('a rule that asks is about the request: an audit leaves it out', () => {
  const policy = policyOf({ ...rules(MAY, 'variables.may'), variables: [{ name: 'may', expression: MAY }] });
  expect(forAudit(policy).rules).toEqual([]);
  expect(hasAudit(forAudit(policy))).toBe(false);
});

test('defaults, mutations and message expressions cannot ask', () => {
  const merge = (expression: string) => ({ name: 'm', type: 'Merge' as const, expression });
  const may = `{'metadata': {'labels': {'may': string(${MAY})}}}`;
  const problems = [
    compileSpec({ mutations: [merge(may)] }),
    compileSpec({
      mutations: [merge("{'metadata': {'labels': {'may': string(variables.may)}}}")],
      variables: [{ name: 'may', expression: MAY }],
    }),
    compileSpec({ validate: { rules: [{ expression: 'true', messageExpression: `string(${MAY})` }] } }),
  ];
  expect(problems.map(({ kind }) => kind)).toEqual(['rejected', 'rejected', 'rejected']);
});
