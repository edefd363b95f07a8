/** Reviews each write of an AdmissionPolicy: may its author read what the policy reads? */
import {
  disclosingText,
  forbiddenReadMessage,
  isOwnSecret,
  MAX_AUTHOR_READS,
  readsOf,
  type AuthorRead,
} from '../../admission/policy/author-reads.ts';
import {
  ALLOWED,
  denied,
  FORBIDDEN,
  type CauseType,
  type Decision,
} from '../../admission/review/decision.ts';
import type { AdmissionRequest, UserInfo } from '../../admission/review/request.ts';
import type { AdmissionPolicy, AdmissionPolicySpec } from '../../api/admission-policy.ts';
import { verifiedDiff } from '../../json/json-diff.ts';
import { objectIn, type JsonObject } from '../../json/json.ts';
import type { AccessReviews } from '../access-reviews.ts';
import { READS_REVIEWED, type ReadRecords } from './read-records.ts';

interface Objection {
  readonly field: string;
  readonly message: string;
  readonly reason?: CauseType;
}

const MOST_LISTED = 16;

/**
 * Refuses a policy whose author may not read what it reads; otherwise records the review in the policy.
 *
 * @throws if a permission check fails
 */
export function createAuthorReview(
  mayUser: AccessReviews,
  { recordOf, verdict }: Pick<ReadRecords, 'recordOf' | 'verdict'>,
  ownNamespace: string,
) {
  const objectionsTo = async (
    reads: readonly AuthorRead[],
    user: UserInfo,
    signal: AbortSignal,
  ): Promise<readonly Objection[]> => {
    const own = reads.filter((read) => isOwnSecret(read, ownNamespace));
    if (own.length > 0) return own.map(({ field }) => ({ field, message: ownSecretMessage(ownNamespace) }));
    if (reads.length > MAX_AUTHOR_READS) {
      const message = `reads ${reads.length} kinds and objects, and at most ${MAX_AUTHOR_READS} are reviewed: split the policy`;
      return [{ field: 'spec', message }];
    }
    const answers = await Promise.all(
      reads.map(({ verb, group, resource, namespace, name }) =>
        mayUser(user, { verb, group, resource, namespace, name }, signal),
      ),
    );
    return reads
      .filter((_read, index) => answers[index] !== true)
      .map((read) => ({ field: read.field, message: forbiddenReadMessage(read) }));
  };

  return async (request: AdmissionRequest, signal: AbortSignal): Promise<Decision> => {
    const { object, name = '', userInfo } = request;
    const spec = specOf(object);
    const before = specOf(request.oldObject);
    const reads = spec === undefined ? [] : readsOf(spec);
    if (object === undefined || spec === undefined || reads.length === 0) return ALLOWED;
    const isUnchanged = before !== undefined && disclosingText(before) === disclosingText(spec);
    const known = isUnchanged ? verdict(name, before, recordIn(request.oldObject)) : 'unreviewed';
    if (known !== 'reviewed') {
      const objections = await objectionsTo(reads, userInfo, signal);
      // An unchanged policy discloses nothing new: controllers must be able to label it and to remove its finalizers.
      if (objections.length > 0 && isUnchanged) return ALLOWED;
      if (objections.length > 0) return refusal(objections.slice(0, MOST_LISTED));
    }
    const record = recordOf(name, spec);
    return record === undefined
      ? ALLOWED
      : { ...ALLOWED, patch: verifiedDiff(object, withRecord(object, record)) };
  };
}

export const ownSecretMessage = (ownNamespace: string): string =>
  `no policy reads Secrets in ${ownNamespace}, where Gatehouse keeps its keys: name an object in another namespace`;

const specOf = (object: JsonObject | undefined): AdmissionPolicySpec | undefined =>
  (object as unknown as Partial<AdmissionPolicy> | undefined)?.spec;

export const recordIn = (policy: object | undefined): string | undefined =>
  (policy as Partial<AdmissionPolicy> | undefined)?.metadata?.annotations?.[READS_REVIEWED];

function withRecord(object: JsonObject, record: string): JsonObject {
  const annotations = { ...objectIn(object, 'metadata', 'annotations'), [READS_REVIEWED]: record };
  return { ...object, metadata: { ...objectIn(object, 'metadata'), annotations } };
}

/** 403 with these objections. */
export function refusal(objections: readonly Objection[]): Decision {
  return denied(
    FORBIDDEN,
    objections.map(({ field, message }) => (field === '' ? message : `${field}: ${message}`)).join('; '),
    objections.map((objection) => ({ reason: 'FieldValueForbidden', ...objection })),
  );
}
