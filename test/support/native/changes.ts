/** Webhook and API server change one object by the same policy. */
import type { AdmissionPolicySpec } from '../../../src/api/admission-policy.ts';
import { compileNative, type NativeOptions } from '../../../src/admission/native/native-policy.ts';
import type { CompiledPolicy } from '../../../src/admission/policy/compiled-policy.ts';
import { mutate } from '../../../src/admission/policy/mutate.ts';
import { CelError } from '../../../src/cel/cel.ts';
import { compileMatchCondition } from '../../../src/cel/match-condition.ts';
import { celValue } from '../../../src/cel/values/values.ts';
import type { KubeObject } from '../../../src/json/kube-object.ts';
import { objectIn, type JsonObject, type JsonValue } from '../../../src/json/json.ts';
import { applyPatch } from '../../../src/json/json-patch.ts';
import { ofJson, toJson } from '../../../src/machinery/api-object.ts';
import { applyMutation, MutationFailure } from '../../../src/machinery/policies/apply-mutation.ts';
import { compilePolicy, type PolicyExpressions } from '../../../src/machinery/policies/compile-policy.ts';
import {
  evaluateConditions,
  evaluationOf,
  outcome,
} from '../../../src/machinery/policies/evaluate-policy.ts';
import { admissionRequest } from '../../../src/machinery/webhooks/admission-review.ts';
import { clusterOf } from '../admission/policy.ts';
import type { Seeded } from '../seeded.ts';
import { matchedBy } from './mutations.ts';
import type { Asked } from './requests.ts';

type Outcome = JsonObject | 'refused';

const specOf = (object: KubeObject): JsonObject => objectIn(object, 'spec');

const noAuthorizer = () => ({ allowed: false, reason: 'no policy asks' });

function applyOnce(compiled: PolicyExpressions, asked: Asked, before: JsonObject): JsonObject | 'refused' {
  const { question, namespaceObject } = asked;
  const namespace = namespaceObject && ofJson(namespaceObject as unknown as JsonObject);
  const type = question.seen;
  const evaluationFor = (object: JsonObject) =>
    evaluationOf(compiled, { ...question, object: ofJson(object) }, namespace, noAuthorizer, undefined);
  let object = before;
  const match = evaluateConditions(compiled, evaluationFor(object));
  if (match.kind !== 'hits') return match.kind === 'error' ? 'refused' : object;
  for (const mutation of compiled.mutations) {
    const result = outcome(mutation.expression, evaluationFor(object));
    if (result.kind !== 'value') return 'refused';
    try {
      object = toJson(applyMutation(mutation, result.value, { object: ofJson(object), type, isView: false }));
    } catch (error) {
      if (!(error instanceof MutationFailure)) throw error;
      return 'refused';
    }
  }
  return object;
}

const objectOf = ({ question: { object } }: Pick<Asked, 'question'>): JsonObject => {
  if (object === undefined) throw new Error('nothing is written');
  return toJson(object);
};

/** The API server applies the policies in this order, and once more. */
export function inOrder(
  policies: readonly CompiledPolicy[],
  others: NativeOptions,
): (asked: Asked) => Outcome {
  const compiled = policies.map((policy) => {
    const pair = compileNative(policy, others).pairs.find(({ part }) => part === 'changes');
    if (pair === undefined) throw new Error('the policy changes nothing in the API server');
    return compilePolicy(specOf(pair.policy));
  });
  return (asked) =>
    [...compiled, ...compiled].reduce<JsonObject | 'refused'>(
      (object, one) => (object === 'refused' ? object : applyOnce(one, asked, object)),
      objectOf(asked),
    );
}

export async function byWebhook(policies: readonly CompiledPolicy[], asked: Asked): Promise<Outcome> {
  const { question, request, namespaceObject } = asked;
  const called = policies.map((policy) => isCalled(policy, question));
  if (called.includes(undefined)) return 'refused';
  const stored = namespaceObject && { [`namespaces/${namespaceObject.metadata?.name}`]: namespaceObject };
  const decision = await mutate(
    request,
    policies.filter((_, index) => called[index]),
    clusterOf({ stored: stored ?? {} }),
  );
  if (decision.kind === 'retry') throw new Error(decision.message);
  if (decision.kind === 'deny') return 'refused';
  return applyPatch(objectOf(asked), decision.patch);
}

/** Whether the API server calls the webhook; undefined: a condition fails, and the failurePolicy Fail refuses. */
function isCalled({ match }: CompiledPolicy, question: Asked['question']): boolean | undefined {
  const { object = null, oldObject = null } = question;
  const values = {
    object: celValue(object),
    oldObject: celValue(oldObject),
    request: celValue(admissionRequest(question)),
  };
  let isKnown = true;
  for (const { expression } of match.matchConditions) {
    try {
      if (compileMatchCondition(expression).run(values) === false) return false;
    } catch (error) {
      if (!(error instanceof CelError)) throw error;
      isKnown = false;
    }
  }
  return isKnown ? true : undefined;
}

const PATHS = [
  ...['spec.tier', 'spec.units', 'spec.note', 'spec.limits.cpu', 'spec.limits.memory', 'spec.enabled'],
  ...['spec.list[0]["a~/b"]', 'spec.list[*].name', 'spec.list[*].deep.er', 'spec.in.side[*].out'],
  ...['spec["a~/b"]', 'spec["a~/b"]["c/d"]', 'spec.list[*].deep[*]["a~/b"]', 'spec.list[1]["a~/b"]'],
  ...['metadata.labels["example.com/rack"]', 'metadata.annotations["example.com/team"]'],
];

const VALUES: readonly JsonValue[] = [
  ...['', 'a\n"b"\\', 'é😀', 0, -3, 1.5, 1e-7, 9_007_199_254_740_991, true, false],
  ...[[], {}, [1, 'a', { b: [true] }], { a: 1, 'b/c': 'x', __proto__: 'y' }],
];

const EXPRESSIONS = [
  'string(object.metadata.name) + "-x"',
  'string(object.?spec.?tier.orValue("none"))',
  'request.userInfo.username == "ada"',
  'string(variables.rack)',
  'has(object.spec) && has(object.spec.units) ? "some" : "none"',
  'string(oldObject.spec.units)',
  'namespaceObject.metadata.labels.env == "staging"',
  'string(object.spec.nothing)',
];

export function defaultingSpecFrom(chance: Seeded): Partial<AdmissionPolicySpec> {
  const rules = Array.from({ length: 1 + chance.below(3) }, () => {
    const path = chance.pick(PATHS);
    if (path.startsWith('metadata')) return { path, value: 'r1' };
    return chance.chance(0.4)
      ? { path, expression: chance.pick(EXPRESSIONS) }
      : { path, value: chance.pick(VALUES) };
  });
  const matched = matchedBy(chance);
  return {
    match: {
      apiGroups: ['infra.example.com'],
      resources: ['servers'],
      ...(chance.chance(0.3) ? matched : {}),
    },
    variables: [{ name: 'rack', expression: 'object.?metadata.?labels["example.com/rack"].orValue("?")' }],
    defaults: rules,
  };
}
