/** Reviews each write of an AdmissionPolicy: may its author read what the policy reads? */
import { isDeepStrictEqual } from 'node:util';

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
import { type AdmissionRequest, type UserInfo, writes } from '../../admission/review/request.ts';
import type { AdmissionPolicy, AdmissionPolicySpec } from '../../api/admission-policy.ts';
import { verifiedDiff } from '../../json/json-diff.ts';
import { objectIn, type JsonObject } from '../../json/json.ts';
import type { AccessReviews } from '../access-reviews.ts';
import { READS_REVIEWED, type ReadRecords } from './read-records.ts';
import { controlPlaneWrites } from '../../admission/policy/match/control-plane-writes.ts';
import { updateNotes } from '../../admission/policy/mutations/update-limits.ts';
import { describeProblem, describeProblems } from '../../admission/policy/problem.ts';
import { orAborted } from '../../json/abort.ts';
import type { Log } from '../../log.ts';
import { compileLive, type CompileOptions } from './policy-kinds.ts';

interface Objection {
  readonly field: string;
  readonly message: string;
  readonly reason?: CauseType;
}

const MOST_LISTED = 16;

/** Refuses a policy that reads more than its author may read; otherwise records the review in the policy. */
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
  `policies cannot read Secrets in ${ownNamespace}, where Gatehouse keeps its keys: reference an object in another namespace`;

const specOf = (object: JsonObject | undefined): AdmissionPolicySpec | undefined =>
  (object as unknown as Partial<AdmissionPolicy> | undefined)?.spec;

export const recordIn = (policy: object | undefined): string | undefined =>
  (policy as Partial<AdmissionPolicy> | undefined)?.metadata?.annotations?.[READS_REVIEWED];

function withRecord(object: JsonObject, record: string): JsonObject {
  const annotations = { ...objectIn(object, 'metadata', 'annotations'), [READS_REVIEWED]: record };
  return { ...object, metadata: { ...objectIn(object, 'metadata'), annotations } };
}

export function refusal(objections: readonly Objection[]): Decision {
  return denied(
    FORBIDDEN,
    objections.map(({ field, message }) => (field === '' ? message : `${field}: ${message}`)).join('; '),
    objections.map((objection) => ({ reason: 'FieldValueForbidden', ...objection })),
  );
}

/** In milliseconds. The write waits for the check, and the API server waits 5 s. */
const LONGEST_MS = 2_000;
const MOST_WARNINGS = 8;

export interface PolicyWarningsOptions extends CompileOptions {
  readonly strict: boolean;
  readonly log: Pick<Log, 'warn'>;
}

/** Never fails and never waits for long. A policy that waits for a kind is not refused: it applies later. */
export function createPolicyWarnings(options: PolicyWarningsOptions) {
  const judge = async (policy: AdmissionPolicy, signal: AbortSignal): Promise<Decision> => {
    const { result, unserved } = await compileLive(policy, options, signal);
    const problems = result.kind === 'rejected' ? result.problems : [];
    const isTemporary = result.kind === 'rejected' && result.reason === 'UnknownTarget';
    if (options.strict && problems.length > 0 && !isTemporary)
      return denied(
        FORBIDDEN,
        `the policy could not be enforced: ${describeProblems(problems)}`,
        problems.map((problem) => ({
          field: problem.where,
          reason: 'FieldValueInvalid',
          message: problem.message,
        })),
      );
    const missing = unserved === undefined ? [] : [{ where: 'spec.match', message: unserved.message }];
    const all = [...missing, ...problems];
    const shown = all.slice(0, MOST_WARNINGS).map((problem) => `not enforced: ${describeProblem(problem)}`);
    const more = all.length - shown.length;
    const careful =
      result.kind === 'rejected' ? [] : [...controlPlaneWrites(result.policy), ...updateNotes(result.policy)];
    const others = more > 0 ? [`not enforced: ${more} more problems; see status.conditions`] : [];
    return { ...ALLOWED, warnings: [...shown, ...others, ...careful.slice(0, MOST_WARNINGS)] };
  };

  return async (
    { operation, object, oldObject, subResource, name }: AdmissionRequest,
    signal: AbortSignal,
  ): Promise<Decision> => {
    if (!writes(operation) || object === undefined || subResource !== '') return ALLOWED;
    // Controllers must be able to label any policy and to remove its finalizers.
    if (oldObject !== undefined && isDeepStrictEqual(object.spec, oldObject.spec)) return ALLOWED;
    const within = AbortSignal.any([signal, AbortSignal.timeout(LONGEST_MS)]);
    try {
      return await orAborted(judge(object as unknown as AdmissionPolicy, within), within);
    } catch (err) {
      options.log.warn({ policy: name, err }, 'could not check a policy while it was written');
      return { ...ALLOWED, warnings: ['the policy could not be checked in time: see its status.conditions'] };
    }
  };
}
