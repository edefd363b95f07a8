import { groupResourceName, type GroupResource } from '../json/kube-object.ts';

/** A `StatusCause`: one problem with an object. `reason` is the API's CauseType, e.g. `FieldValueRequired`. */
export interface Cause {
  readonly reason: string;
  readonly message: string;
  /** A field path in Kubernetes notation: `spec.ports[0].port`, `metadata.annotations[a/b]`. */
  readonly field: string;
}

interface StatusDetails {
  readonly name?: string;
  readonly group?: string;
  readonly kind?: string;
  readonly uid?: string;
  readonly causes?: readonly (Pick<Cause, 'message'> & Partial<Cause>)[];
  readonly retryAfterSeconds?: number;
}

export interface Status {
  readonly kind: 'Status';
  readonly apiVersion: 'v1';
  readonly metadata: object;
  readonly status: 'Success' | 'Failure';
  readonly message?: string;
  readonly reason?: string;
  readonly details?: StatusDetails;
  readonly code: number;
}

/** An error response of the API server. Any code may throw it; the HTTP layer sends `status` unchanged. */
export class ApiFailure extends Error {
  readonly status: Status;

  constructor(code: number, reason: string, message: string, details?: StatusDetails) {
    super(message);
    this.name = 'ApiFailure';
    this.status = {
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Failure',
      message,
      // Go omits empty strings.
      ...(reason === '' ? {} : { reason }),
      ...(details === undefined ? {} : { details }),
      code,
    };
  }
}

const about = (
  code: number,
  reason: string,
  { group, resource }: GroupResource,
  name: string,
  message: string,
) =>
  new ApiFailure(code, reason, message, {
    ...(name === '' ? {} : { name }),
    ...(group === '' ? {} : { group }),
    kind: resource,
  });

export function listed(problems: readonly string[]): string {
  const unique = [...new Set(problems)];
  return unique.length === 1 ? unique.join() : `[${unique.join(', ')}]`;
}

// Messages follow k8s.io/apimachinery/pkg/api/errors, because clients match on them.

export const badRequest = (message: string) => new ApiFailure(400, 'BadRequest', message);

export const unauthorized = () => new ApiFailure(401, 'Unauthorized', 'Unauthorized');

export function forbidden(subject: GroupResource, name: string, why: string): ApiFailure {
  const what = name === '' ? groupResourceName(subject) : `${groupResourceName(subject)} "${name}"`;
  return about(403, 'Forbidden', subject, name, `${what} is forbidden: ${why}`);
}

export const notFound = (subject: GroupResource, name: string) =>
  about(404, 'NotFound', subject, name, `${groupResourceName(subject)} "${name}" not found`);

export const noSuchResource = () =>
  new ApiFailure(404, 'NotFound', 'the server could not find the requested resource', {});

/** For a path below a group without built-in kinds: the answer is plain text. In other groups, it is {@link noSuchResource}. */
export class NoSuchPath extends Error {
  override readonly name = 'NoSuchPath';
}

export function methodNotAllowed(): ApiFailure {
  const message = 'the server does not allow this method on the requested resource';
  return new ApiFailure(405, 'MethodNotAllowed', message, {});
}

/** The path of a custom resource does not support the verb. */
export function methodNotSupported(subject: GroupResource, verb: string): ApiFailure {
  const message = `${verb} is not supported on resources of kind "${groupResourceName(subject)}"`;
  return about(405, 'MethodNotAllowed', subject, '', message);
}

export const notAcceptable = (message: string) => new ApiFailure(406, 'NotAcceptable', message);

export const alreadyExists = (subject: GroupResource, name: string) =>
  about(409, 'AlreadyExists', subject, name, `${groupResourceName(subject)} "${name}" already exists`);

export function conflict(subject: GroupResource, name: string, why: string): ApiFailure {
  const message = `Operation cannot be fulfilled on ${groupResourceName(subject)} "${name}": ${why}`;
  return about(409, 'Conflict', subject, name, message);
}

export const MODIFIED =
  'the object has been modified; please apply your changes to the latest version and try again';

/** 410: the resourceVersion or the continue token is too old. */
export const expired = (message: string) => new ApiFailure(410, 'Expired', message);

export const unsupportedMediaType = (message: string, details?: StatusDetails) =>
  new ApiFailure(415, 'UnsupportedMediaType', message, details);

/** 422. `kind` is written without its version, as in `Server.infra.example.com "x" is invalid: …`. */
export function invalid(
  kind: { readonly group: string; readonly kind: string },
  name: string,
  causes: readonly Cause[],
): ApiFailure {
  const shown = listed(causes.map(({ field, message }) => `${field}: ${message}`));
  const qualifiedKind = kind.group === '' ? kind.kind : `${kind.kind}.${kind.group}`;
  return new ApiFailure(422, 'Invalid', `${qualifiedKind} "${name}" is invalid: ${shown}`, {
    ...(name === '' ? {} : { name }),
    ...(kind.group === '' ? {} : { group: kind.group }),
    kind: kind.kind,
    causes: causes.map(({ reason, message, field }) => ({ reason, message, field })),
  });
}

export const internalError = (message: string) =>
  new ApiFailure(500, 'InternalError', `Internal error occurred: ${message}`, {
    causes: [{ message }],
  });
