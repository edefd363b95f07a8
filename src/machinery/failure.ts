/**
 * One problem with an object: a `StatusCause` on the wire. `reason` is the API's CauseType, e.g.
 * `FieldValueRequired`.
 */
export interface Cause {
  readonly reason: string;
  readonly message: string;
  /** A field path in Kubernetes notation: `spec.ports[0].port`, `metadata.annotations[a/b]`. */
  readonly field: string;
}

/** `Status.details`: the object or resource that the request addressed. */
export interface StatusDetails {
  readonly name?: string;
  readonly group?: string;
  readonly kind?: string;
  readonly uid?: string;
  readonly causes?: readonly (Pick<Cause, 'message'> & Partial<Cause>)[];
  readonly retryAfterSeconds?: number;
}

/** A `v1` `Status`: the body of every answer that is not an object. */
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

/** The object that an error is about; `resource` is plural, as in `details.kind`. */
export interface Subject {
  readonly group: string;
  readonly resource: string;
}

const qualified = ({ group, resource }: Subject) => (group === '' ? resource : `${resource}.${group}`);

const detailsOf = ({ group, resource }: Subject, name: string): StatusDetails => ({
  ...(name === '' ? {} : { name }),
  ...(group === '' ? {} : { group }),
  kind: resource,
});

// Messages follow k8s.io/apimachinery/pkg/api/errors, because clients match on them.

export const badRequest = (message: string) => new ApiFailure(400, 'BadRequest', message);

export const unauthorized = () => new ApiFailure(401, 'Unauthorized', 'Unauthorized');

export const forbidden = (subject: Subject, name: string, why: string) =>
  new ApiFailure(
    403,
    'Forbidden',
    `${qualified(subject)}${name === '' ? '' : ` "${name}"`} is forbidden: ${why}`,
    detailsOf(subject, name),
  );

export const notFound = (subject: Subject, name: string) =>
  new ApiFailure(404, 'NotFound', `${qualified(subject)} "${name}" not found`, detailsOf(subject, name));

/** The path or the resource does not exist. */
export const noSuchResource = () =>
  new ApiFailure(404, 'NotFound', 'the server could not find the requested resource', {});

/**
 * Thrown for a path below a group without built-in kinds; the answer is plain text. In a group with built-in kinds,
 * an unknown path is {@link noSuchResource}.
 */
export class NoSuchPath extends Error {
  override readonly name = 'NoSuchPath';
}

export const methodNotAllowed = (
  message = 'the server does not allow this method on the requested resource',
) => new ApiFailure(405, 'MethodNotAllowed', message, {});

/** The path of a custom resource does not support the verb. */
export const methodNotSupported = ({ group, resource }: Subject, verb: string) =>
  new ApiFailure(
    405,
    'MethodNotAllowed',
    `${verb} is not supported on resources of kind "${qualified({ group, resource })}"`,
    detailsOf({ group, resource }, ''),
  );

export const notAcceptable = (message: string, details?: StatusDetails) =>
  new ApiFailure(406, 'NotAcceptable', message, details);

export const alreadyExists = (subject: Subject, name: string) =>
  new ApiFailure(
    409,
    'AlreadyExists',
    `${qualified(subject)} "${name}" already exists`,
    detailsOf(subject, name),
  );

export const conflict = (subject: Subject, name: string, why: string) =>
  new ApiFailure(
    409,
    'Conflict',
    `Operation cannot be fulfilled on ${qualified(subject)} "${name}": ${why}`,
    detailsOf(subject, name),
  );

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
  const texts = causes.map(({ field, message }) => `${field}: ${message}`);
  const shown = texts.length === 1 ? (texts[0] ?? '') : `[${texts.join(', ')}]`;
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
