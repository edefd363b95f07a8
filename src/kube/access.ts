import type { CallOptions, KubeClient } from './client.ts';
import type { KubeObject } from '../json/kube-object.ts';
import { selfSubjectAccessReviews, subjectAccessReviews, tokenReviews } from './well-known.ts';

export interface AccessQuestion {
  readonly verb: string;
  /** Empty for the core group. */
  readonly group: string;
  readonly resource: string;
  readonly subresource?: string;
  /** Without it: in all namespaces, or cluster-scoped. */
  readonly namespace?: string | undefined;
  readonly name?: string | undefined;
}

interface SelfSubjectAccessReview extends KubeObject {
  readonly spec: { readonly resourceAttributes: AccessQuestion };
  readonly status?: { readonly allowed: boolean };
}

/** Whether the API server would let this client do that. */
export async function canI(
  client: Pick<KubeClient, 'create'>,
  question: AccessQuestion,
  options?: CallOptions,
): Promise<boolean> {
  const review = await client.create<SelfSubjectAccessReview>(
    selfSubjectAccessReviews,
    { metadata: {}, spec: { resourceAttributes: question } },
    options,
  );
  return review.status?.allowed === true;
}

/** Who is asked about: as an API server knows them. */
export interface AccessSubject {
  readonly username: string;
  readonly uid: string;
  readonly groups: readonly string[];
  readonly extra: Readonly<Record<string, readonly string[]>>;
}

/** A path that is no resource, e.g. `/metrics`. */
export interface PathQuestion {
  readonly verb: string;
  readonly path: string;
}

interface SubjectAccessReview extends KubeObject {
  readonly spec: {
    readonly user: string;
    readonly uid: string;
    readonly groups: readonly string[];
    readonly extra: Readonly<Record<string, readonly string[]>>;
  } & Asked;
  readonly status?: {
    readonly allowed: boolean;
    /** Explicitly no, where `allowed: false` alone may mean that nothing says yes. */
    readonly denied?: boolean;
    readonly evaluationError?: string;
  };
}

/** Either of them. */
interface Asked {
  readonly resourceAttributes?: AccessQuestion;
  readonly nonResourceAttributes?: PathQuestion;
}

async function review(
  client: Pick<KubeClient, 'create'>,
  { username, uid, groups, extra }: AccessSubject,
  asked: Asked,
  options: CallOptions | undefined,
): Promise<SubjectAccessReview['status']> {
  const spec = { user: username, uid, groups, extra, ...asked };
  const answer = await client.create<SubjectAccessReview>(
    subjectAccessReviews,
    { metadata: {}, spec },
    options,
  );
  return answer.status;
}

/** Whether the API server would let this user do that. That nothing says yes is a no: a binding to a role that is gone is an error, too. */
export async function mayUser(
  client: Pick<KubeClient, 'create'>,
  subject: AccessSubject,
  question: AccessQuestion,
  options?: CallOptions,
): Promise<boolean> {
  const status = await review(client, subject, { resourceAttributes: question }, options);
  return status?.allowed === true;
}

/**
 * Whether the API server would let this user visit that path.
 * @throws as the client does, and when the authorizer could not decide: that nothing says yes is no answer then
 */
export async function mayUserVisit(
  client: Pick<KubeClient, 'create'>,
  subject: AccessSubject,
  question: PathQuestion,
  options?: CallOptions,
): Promise<boolean> {
  const status = await review(client, subject, { nonResourceAttributes: question }, options);
  if (status === undefined) throw new Error('the API server answered a SubjectAccessReview without a status');
  const { allowed, denied = false, evaluationError = '' } = status;
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

/**
 * Whose bearer token this is, as the API server says; undefined when it is nobody's, or not for this audience.
 *
 * @param audience whom the token is to be made for. Undefined: the API server itself
 * @throws as the client does, and when the answer decides nothing
 */
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
  // An authenticator that knows nothing of audiences takes every token: that it has looked, it says by naming them.
  if (!authenticated || (audience !== undefined && !audiences.includes(audience))) return undefined;
  const { username = '', uid = '', groups = [], extra = {} } = user;
  return username === '' ? undefined : { username, uid, groups, extra };
}
