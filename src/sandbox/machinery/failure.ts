/** One thing wrong with an object: a `StatusCause` on the wire. `reason` is the API's CauseType, e.g. `FieldValueRequired`. */
export interface Cause {
  readonly reason: string;
  readonly message: string;
  /** Path in Kubernetes' spelling: `spec.ports[0].port`, `metadata.annotations[a/b]`. */
  readonly field: string;
}

/** `Status.details`: what the request was about. */
export interface StatusDetails {
  readonly name?: string;
  readonly group?: string;
  readonly kind?: string;
  readonly uid?: string;
  readonly causes?: readonly (Pick<Cause, 'message'> & Partial<Cause>)[];
  readonly retryAfterSeconds?: number;
}

/** A `Status` of `v1`, the body of every answer that is not an object. */
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

/** What the API server refuses a request with. Thrown anywhere; the HTTP layer writes `status` as it stands. */
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
      // Go leaves empty text out.
      ...(reason === '' ? {} : { reason }),
      ...(details === undefined ? {} : { details }),
      code,
    };
  }
}

/** What an error is about: `resource` in the plural, as `details.kind` has it. */
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

// The wordings are those of k8s.io/apimachinery/pkg/api/errors: clients match on them.

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

/** No such path, or no such resource. */
export const noSuchResource = () =>
  new ApiFailure(404, 'NotFound', 'the server could not find the requested resource', {});

/**
 * Thrown for a path that nobody serves at all, which is answered in plain text: below a group that no built-in kind is in. Where
 * there are built-in kinds, a path that leads nowhere is {@link noSuchResource}.
 */
export class NoSuchPath extends Error {
  override readonly name = 'NoSuchPath';
}

export const methodNotAllowed = (
  message = 'the server does not allow this method on the requested resource',
) => new ApiFailure(405, 'MethodNotAllowed', message, {});

/** A verb that the path of a custom resource does not have. */
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

/** 422. `kind` without its version, as in `Server.infra.example.com "x" is invalid: …`. */
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
