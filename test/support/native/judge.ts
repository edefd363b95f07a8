/** Webhook and API server judge one request by the same policy. */
import { isLeftToWebhook } from '../../../src/admission/native/release.ts';
import {
  compileNative,
  type NativeOptions,
  type NativePair,
} from '../../../src/admission/native/native-policy.ts';
import type { CompiledPolicy } from '../../../src/admission/policy/compiled-policy.ts';
import { LONGEST_ANNOTATION } from '../../../src/admission/policy/findings.ts';
import { validate } from '../../../src/admission/policy/validate.ts';
import { CelError } from '../../../src/cel/cel.ts';
import { celValue } from '../../../src/cel/values/values.ts';
import { compileMatchCondition } from '../../../src/cel/match-condition.ts';
import { objectIn, type JsonObject } from '../../../src/json/json.ts';
import { objectKey, type KubeObject } from '../../../src/json/kube-object.ts';
import { ofJson, type ApiObject } from '../../../src/machinery/api-object.ts';
import { compilePolicy } from '../../../src/machinery/policies/compile-policy.ts';
import { evaluatePolicy } from '../../../src/machinery/policies/evaluate-policy.ts';
import { paramsOf } from '../../../src/machinery/policies/policy-admission.ts';
import { apiVersionOf, type ResourceRegistry } from '../../../src/machinery/resource-type.ts';
import { createStorage } from '../../../src/machinery/storage/storage.ts';
import { placeOf } from '../../../src/machinery/storage/stored.ts';
import { admissionRequest } from '../../../src/machinery/webhooks/admission-review.ts';
import { clusterOf, GROUP } from '../admission/policy.ts';
import { TYPES, type Asked } from './requests.ts';

/** What a user and the audit log see: refusals, warnings and annotations. */
export interface Verdict {
  readonly refusals: readonly string[];
  readonly warnings: readonly string[];
  readonly annotations: Readonly<Record<string, string>>;
}

export const NOTHING: Verdict = { refusals: [], warnings: [], annotations: {} };
const UNEVALUATED = 'an expression that cannot be evaluated';

export function judgesOf(policy: CompiledPolicy, options: NativeOptions) {
  const pairs = compileNative(policy, options)
    .pairs.filter(({ part }) => part !== 'changes')
    .map((pair) => evaluated(pair));
  return {
    webhook: (asked: Asked, params: KubeObject | undefined) => byWebhook(policy, asked, params),
    apiServer: async (asked: Asked, params: KubeObject | undefined): Promise<Verdict> => {
      const all = await Promise.all(pairs.map((evaluate) => evaluate(asked, params)));
      return {
        refusals: distinct(all.flatMap(({ refusals }) => refusals)),
        warnings: all.flatMap(({ warnings }) => warnings).toSorted(),
        annotations: Object.fromEntries(all.flatMap(({ annotations }) => Object.entries(annotations))),
      };
    },
    isLeft: ({ request }: Asked) => isLeftToWebhook(policy, options.restorers, request),
  };
}

/** Each pair states the match conditions. */
export const distinct = (messages: readonly string[]): readonly string[] => [...new Set(messages)].toSorted();

function evaluated({ policy, binding }: NativePair) {
  const [spec, bound] = [specOf(policy), specOf(binding)];
  const compiled = { ...compilePolicy(spec), ignoresFailures: spec.failurePolicy === 'Ignore' };
  const [action] = bound.validationActions as readonly string[];
  return async ({ question, namespaceObject }: Asked, params: KubeObject | undefined): Promise<Verdict> => {
    const found = await paramsOf(spec, bound, question.attributes.namespace, worldWith(params));
    if (found.kind === 'broken') throw new Error(found.message);
    const evaluatedAll = found.params.map((one) =>
      evaluatePolicy(compiled, question, sandboxed(namespaceObject), noAuthorizer, one),
    );
    const failures = evaluatedAll.flatMap((one) => one.failures);
    const auditAnnotations = evaluatedAll.flatMap((one) => one.auditAnnotations);
    const messages = failures.map(({ message }) => message);
    const common = messages.map(inCommon);
    const annotations = Object.fromEntries(auditAnnotations);
    return {
      refusals: action === 'Deny' ? common : [],
      warnings: action === 'Warn' ? common : [],
      annotations: action === 'Audit' ? { ...annotations, ...violations(messages.join('; ')) } : annotations,
    };
  };
}

export const specOf = (object: KubeObject): JsonObject => objectIn(object, 'spec');

export const noAuthorizer = () => ({ allowed: false, reason: 'no policy asks' });

export const sandboxed = (object: KubeObject | undefined) =>
  object === undefined ? undefined : ofJson(object as unknown as JsonObject);

export function worldWith(params: KubeObject | undefined) {
  const storage = createStorage();
  const object = sandboxed(params);
  const findKind = (apiVersion: string, kind: string) =>
    Object.values(TYPES).find((type) => apiVersionOf(type) === apiVersion && type.kind === kind);
  const type = findKind(params?.apiVersion ?? '', params?.kind ?? '');
  if (object !== undefined && type !== undefined) storage.create(placeOf(type), object);
  const registry = { findKind } as unknown as ResourceRegistry; // what the lookup of params reads
  return { registry, storage, convert: (objects: readonly ApiObject[]) => Promise.resolve(objects) };
}

/** Ajv and CEL may find the flaws of a value in another order, so long annotations may keep other parts. */
export const violations = (text: string): Verdict['annotations'] => {
  if (Array.from(text).length > LONGEST_ANNOTATION || text.endsWith('…')) return { violations: 'too long' };
  return text === '' ? {} : { violations: inCommon(text).split('; ').toSorted().join('; ') };
};

async function byWebhook(
  policy: CompiledPolicy,
  { question, request, namespaceObject }: Asked,
  params: KubeObject | undefined,
): Promise<Verdict> {
  const called = isCalled(policy, question);
  if (called !== true) return { ...NOTHING, refusals: called === false ? [] : [UNEVALUATED] };
  const stored = {
    ...storedNamespace(namespaceObject),
    ...(params === undefined ? {} : { [keyOfParams(policy, params)]: params }),
  };
  const decision = await validate(request, [policy], clusterOf({ stored }));
  if (decision.kind === 'retry') throw new Error(decision.message);
  const causes = decision.kind === 'deny' ? decision.causes : [];
  const { violations: found } = decision.auditAnnotations;
  const annotations = Object.fromEntries(
    Object.entries(decision.auditAnnotations).filter(
      ([key]) => key !== 'violations' && key !== 'expression-errors',
    ),
  );
  return {
    refusals: distinct(
      causes.map(({ field, message }) =>
        inCommon(`${field === '' ? '' : `${field}: `}${message} (policy ${policy.name})`),
      ),
    ),
    warnings: decision.warnings.map(inCommon).toSorted(),
    annotations: { ...annotations, ...violations(found ?? '') },
  };
}

export const storedNamespace = (namespace: KubeObject | undefined): Readonly<Record<string, KubeObject>> =>
  namespace === undefined ? {} : { [`namespaces/${namespace.metadata?.name}`]: namespace };

export const keyOfParams = ({ params }: CompiledPolicy, { metadata = {} }: KubeObject): string =>
  `${params?.target.resource}.${GROUP}/${objectKey(metadata)}`;

/** Whether the API server calls the webhook; undefined: a condition fails, and the failurePolicy Fail refuses. */
export function isCalled({ match }: CompiledPolicy, question: Asked['question']): boolean | undefined {
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

/** The API server explains an error of an expression in its own words, and does not show the new value of a field. */
export const inCommon = (message: string): string =>
  /resulted in error: |could not be evaluated: |an expression that cannot be evaluated/.test(message)
    ? UNEVALUATED
    : message.replace(/ (changed|set) to [^]*?( later)?: (keep the value|leave it out)/g, ' $1$2: $3');
