import type { CelAuthorize } from '../../cel/library/authorizer.ts';
import { ApiFailure, badRequest, internalError } from '../failure.ts';
import type { ConvertObjects } from '../crd/convert.ts';
import type { Notes, UserInfo } from '../request.ts';
import type { ResourceRegistry, ResourceType } from '../resource-type.ts';
import type { Storage } from '../storage/stored.ts';
import type { ApiObject } from '../api-object.ts';
import {
  admissionReview,
  refusalOf,
  verdictOf,
  type AdmissionAttributes,
  type Question,
  type Verdict,
} from './admission-review.ts';
import { callFailure, type CallWebhook, type Hook } from './hook.ts';
import { conditionsHold, matchingType } from './match.ts';

export interface AdmissionWorld {
  readonly registry: ResourceRegistry;
  readonly storage: Storage;
  readonly convert: ConvertObjects;
  readonly newUid: () => string;
  readonly call: CallWebhook;
  /** Absent: expressions cannot ask the authorizer. */
  readonly authorizerOf?: (user: UserInfo) => CelAuthorize;
}

const USER_AGENT = 'kube-apiserver-admission';

/** The review to send to a webhook; undefined if the webhook does not match the request. */
export async function questionFor(
  api: AdmissionWorld,
  hook: Hook,
  attributes: AdmissionAttributes,
): Promise<Question | undefined> {
  const seen = matchingType(hook, attributes, api);
  if (seen === undefined) return undefined;
  const version = hook.reviewVersions.find((one) => one === 'v1' || one === 'v1beta1') ?? 'v1';
  const question = { ...(await questionIn(api, seen, attributes)), version };
  return conditionsHold(hook, question) ? question : undefined;
}

/** The request with its objects in another version. @throws ApiFailure 500 if they cannot be converted */
export async function questionIn(
  { convert, newUid }: Pick<AdmissionWorld, 'convert' | 'newUid'>,
  seen: ResourceType,
  attributes: AdmissionAttributes,
): Promise<Question> {
  const inVersion = async (object: ApiObject | undefined) =>
    object === undefined || attributes.shownAs !== undefined
      ? object
      : (await converted(convert([object], seen)))[0];
  return {
    uid: newUid(),
    version: 'v1',
    attributes,
    seen,
    object: await inVersion(attributes.object),
    oldObject: await inVersion(attributes.oldObject),
  };
}

/** A failed conversion does not count as a failure of the webhook. */
export async function converted<Result>(conversion: Promise<Result>): Promise<Result> {
  try {
    return await conversion;
  } catch (error) {
    throw error instanceof ApiFailure ? internalError(error.message) : error;
  }
}

/** The answer of a webhook that allows the request. @throws CallFailure if there is no valid answer */
export async function callHook(
  { call }: Pick<AdmissionWorld, 'call'>,
  hook: Hook,
  question: Question,
  phase: 'mutating' | 'validating',
  notes: Notes,
): Promise<Verdict> {
  if (question.attributes.dryRun && hook.sideEffects !== 'None' && hook.sideEffects !== 'NoneOnDryRun') {
    throw badRequest(`admission webhook ${JSON.stringify(hook.name)} does not support dry run`);
  }
  const review = admissionReview(question);
  const answer = await call(hook.client, review, hook.timeoutSeconds * 1_000, USER_AGENT).catch(
    (error: unknown) => {
      throw callFailure('failed to call webhook', error);
    },
  );
  let verdict: Verdict;
  try {
    verdict = verdictOf(answer, question, phase === 'mutating');
  } catch (error) {
    throw callFailure('received invalid webhook response', error);
  }
  for (const [key, value] of verdict.auditAnnotations) notes.annotate(`${hook.name}/${key}`, value);
  for (const warning of verdict.warnings) notes.warn(warning);
  if (!verdict.allowed) throw refusalOf(hook.name, verdict.status);
  return verdict;
}
