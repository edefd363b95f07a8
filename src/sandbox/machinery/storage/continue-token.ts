import { isJsonObject, ownValue, parseJson, type JsonValue } from '../../../json/json.ts';
import { badRequest, expired, type ApiFailure } from '../failure.ts';

/** Where the next page of a list starts. */
export interface Continuation {
  /** The list's state is that at this revision; `latest` after the client accepted an inconsistent list. */
  readonly revision: number | 'latest';
  /** The first key that the page may have, relative to what is listed: `namespace/name`, or `name` within a namespace. */
  readonly start: string;
}

// The layout is that of k8s.io/apiserver/pkg/storage/continue.go, so that tokens look as in a real cluster; to clients they are opaque.
const VERSION = 'meta.k8s.io/v1';
const LATEST = -1;

export function writeContinueToken({ revision, start }: Continuation): string {
  const token = { v: VERSION, rv: revision === 'latest' ? LATEST : revision, start };
  return Buffer.from(JSON.stringify(token)).toString('base64url');
}

/** @throws ApiFailure 400 when it is none of ours */
export function readContinueToken(text: string): Continuation {
  const token = parseToken(text);
  if (!isJsonObject(token)) throw refuse('not a token');
  const version = ownValue(token, 'v') ?? '';
  if (version !== VERSION) {
    throw refuse(`server does not recognize this encoded version ${JSON.stringify(version)}`);
  }
  const revision = ownValue(token, 'rv');
  const start = ownValue(token, 'start');
  if (
    typeof revision !== 'number' ||
    !Number.isSafeInteger(revision) ||
    revision < LATEST ||
    revision === 0
  ) {
    throw refuse(`incorrect encoded start resourceVersion (version ${VERSION})`);
  }
  if (typeof start !== 'string' || start === '') throw refuse(`encoded start key empty (version ${VERSION})`);
  return { revision: revision === LATEST ? 'latest' : revision, start };
}

const refuse = (why: string) => badRequest(`invalid continue token: continue key is not valid: ${why}`);

function parseToken(text: string): JsonValue {
  const foreign = text.search(/[^A-Za-z0-9_-]/);
  if (foreign >= 0) throw refuse(`illegal base64 data at input byte ${foreign}`);
  try {
    return parseJson(Buffer.from(text, 'base64url').toString());
  } catch {
    return null;
  }
}

/**
 * 410 for a page whose revision is forgotten. It offers a token by which the rest can be had as it is now.
 *
 * @param start as in {@link Continuation}
 * @see k8s.io/apiserver/pkg/storage/etcd3/errors.go for the wording
 */
export function continueExpired(start: string): ApiFailure {
  const failure = expired(
    'The provided continue parameter is too old to display a consistent list result. You can start a new list without ' +
      'the continue parameter, or use the continue token in this response to retrieve the remainder of the results. ' +
      'Continuing with the provided token results in an inconsistent list - objects that were created, modified, or ' +
      'deleted between the time the first chunk was returned and now may show up in the list.',
  );
  const metadata = { continue: writeContinueToken({ revision: 'latest', start }) };
  return Object.assign(failure, { status: { ...failure.status, metadata } });
}
