import type { CallOptions, KubeClient } from './client.ts';
import type { KubeObject } from '../json/kube-object.ts';
import { textIn, valueIn } from '../json/json.ts';
import {
  selfSubjectAccessReviews,
  subjectAccessReviews,
  tokenReviews,
  selfSubjectReviews,
} from './well-known.ts';
import { insteadOf, isForbidden } from './api-error.ts';

export interface AccessQuestion {
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  readonly subresource?: string | undefined;
  /** Default: all namespaces, or cluster-scoped. */
  readonly namespace?: string | undefined;
  readonly name?: string | undefined;
  /** API servers before 1.31 ignore selectors. */
  readonly fieldSelector?: { readonly rawSelector: string };
  readonly labelSelector?: { readonly rawSelector: string };
}

export async function canI(
  client: Pick<KubeClient, 'create'>,
  question: AccessQuestion,
  options?: CallOptions,
): Promise<boolean> {
  const review = { metadata: {}, spec: { resourceAttributes: question } };
  const answer = await client.create(selfSubjectAccessReviews, review, options);
  return valueIn(answer, 'status', 'allowed') === true;
}

export interface AccessSubject {
  readonly username: string;
  readonly uid: string;
  readonly groups: readonly string[];
  readonly extra: Readonly<Record<string, readonly string[]>>;
}

export interface PathQuestion {
  readonly verb: string;
  readonly path: string;
}

interface SubjectAccessReview extends KubeObject {
  readonly spec: Omit<AccessSubject, 'username'> & { readonly user: string } & Attributes;
  readonly status?: {
    readonly allowed: boolean;
    readonly denied?: boolean;
    readonly reason?: string;
    readonly evaluationError?: string;
  };
}

interface Attributes {
  readonly resourceAttributes?: AccessQuestion;
  readonly nonResourceAttributes?: PathQuestion;
}

const attributesOf = (question: AccessQuestion | PathQuestion): Attributes =>
  'path' in question ? { nonResourceAttributes: question } : { resourceAttributes: question };

async function review(
  client: Pick<KubeClient, 'create'>,
  { username, uid, groups, extra }: AccessSubject,
  attributes: Attributes,
  options: CallOptions | undefined,
): Promise<NonNullable<SubjectAccessReview['status']>> {
  const spec = { user: username, uid, groups, extra, ...attributes };
  const object: SubjectAccessReview = { metadata: {}, spec };
  const { status } = await client.create(subjectAccessReviews, object, options);
  if (status === undefined) throw new Error('the API server answered a SubjectAccessReview without a status');
  return status;
}

/** Whether this user has the permission. An evaluation error counts as no: a binding to a deleted role causes one. */
export async function mayUser(
  client: Pick<KubeClient, 'create'>,
  subject: AccessSubject,
  question: AccessQuestion | PathQuestion,
  options?: CallOptions,
): Promise<boolean> {
  return (await review(client, subject, attributesOf(question), options)).allowed;
}

export interface AccessDecision {
  readonly allowed: boolean;
  readonly reason: string;
  readonly error: string;
}

/** @throws like the client, and when the response lacks a status */
export async function decideAccess(
  client: Pick<KubeClient, 'create'>,
  subject: AccessSubject,
  question: AccessQuestion | PathQuestion,
  options?: CallOptions,
): Promise<AccessDecision> {
  const { allowed, reason, evaluationError } = await review(client, subject, attributesOf(question), options);
  return { allowed, reason: reason ?? '', error: evaluationError ?? '' };
}

/** @throws like the client, and when the authorizer could not decide */
export async function mayUserVisit(
  client: Pick<KubeClient, 'create'>,
  subject: AccessSubject,
  question: PathQuestion,
  options?: CallOptions,
): Promise<boolean> {
  const answer = await review(client, subject, { nonResourceAttributes: question }, options);
  const { allowed, denied = false, evaluationError = '' } = answer;
  if (!allowed && !denied && evaluationError !== '')
    throw new Error(`the API server could not decide about ${subject.username}: ${evaluationError}`);
  return allowed;
}

interface TokenReview extends KubeObject {
  readonly spec: { readonly token: string; readonly audiences?: readonly string[] };
  readonly status?: {
    readonly authenticated?: boolean;
    readonly user?: Partial<AccessSubject>;
    readonly audiences?: readonly string[];
  };
}

/** Undefined when the token is not valid for this audience (default: the API server). @throws like `decideAccess` */
export async function reviewToken(
  client: Pick<KubeClient, 'create'>,
  token: string,
  audience: string | undefined,
  options?: CallOptions,
): Promise<AccessSubject | undefined> {
  const spec = { token, ...(audience === undefined ? {} : { audiences: [audience] }) };
  const { status } = await client.create<TokenReview>(tokenReviews, { metadata: {}, spec }, options);
  if (status === undefined) throw new Error('the API server answered a TokenReview without a status');
  const { authenticated = false, user = {}, audiences = [] } = status;
  // An authenticator that ignores audiences accepts every token and returns no audiences.
  if (!authenticated || (audience !== undefined && !audiences.includes(audience))) return undefined;
  const { username = '', uid = '', groups = [], extra = {} } = user;
  return username === '' ? undefined : { username, uid, groups, extra };
}

/** Undefined: an administrator has revoked the permission to ask, which Kubernetes grants to all users. */
export async function readOwnUser(
  client: Pick<KubeClient, 'create'>,
  signal: AbortSignal,
): Promise<string | undefined> {
  const asking = client.create(selfSubjectReviews, { metadata: {} }, { signal });
  const review = await asking.catch(insteadOf(isForbidden, undefined));
  return textIn(review, 'status', 'userInfo', 'username') || undefined;
}
