/** What the webhook answers to a request, in a form that its counterpart of the API server has. */
import type { CompiledPolicy } from '../../../src/admission/policy/compiled-policy.ts';
import { LONGEST_ANNOTATION } from '../../../src/admission/policy/findings.ts';
import { validate } from '../../../src/admission/policy/validate.ts';
import { CelError } from '../../../src/cel/cel.ts';
import { celValue } from '../../../src/cel/values/values.ts';
import { compileMatchCondition } from '../../../src/cel/match-condition.ts';
import { objectIn, type JsonObject } from '../../../src/json/json.ts';
import { objectKey, type KubeObject } from '../../../src/json/kube-object.ts';
import { ofJson } from '../../../src/machinery/api-object.ts';
import { admissionRequest } from '../../../src/machinery/webhooks/admission-review.ts';
import { clusterOf, GROUP } from '../admission/policy.ts';
import type { Asked } from './requests.ts';

export interface Verdict {
  readonly refusals: readonly string[];
  readonly warnings: readonly string[];
  readonly annotations: Readonly<Record<string, string>>;
}

export const NOTHING: Verdict = { refusals: [], warnings: [], annotations: {} };
export const UNEVALUATED = 'an expression that cannot be evaluated';

/** Each pair states the match conditions. */
export const distinct = (messages: readonly string[]): readonly string[] => [...new Set(messages)].toSorted();

export const specOf = (object: KubeObject): JsonObject => objectIn(object, 'spec');

export const noAuthorizer = () => ({ allowed: false, reason: 'no policy asks' });

export const sandboxed = (object: KubeObject | undefined) =>
  object === undefined ? undefined : ofJson(object as unknown as JsonObject);

/** Ajv and CEL may find the flaws of a value in another order, so long annotations may keep other parts. */
export const violations = (text: string): Verdict['annotations'] => {
  if (Array.from(text).length > LONGEST_ANNOTATION || text.endsWith('…')) return { violations: 'too long' };
  return text === '' ? {} : { violations: inCommon(text).split('; ').toSorted().join('; ') };
};

export async function verdictOfWebhook(
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
      causes.map(({ field, message }) => inCommon(`${field === '' ? '' : `${field}: `}${message}`)),
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
