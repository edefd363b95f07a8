import { createHash } from 'node:crypto';

import { stringifyJson, type JsonObject } from '../../../json/json.ts';
import type { ResourceRegistry, ResourceType } from '../../machinery/resource-type.ts';
import { documentAnswer, type DocumentAnswer, GIT_VERSION } from './version.ts';
import { groupsOf, type ServedVersion } from './groups.ts';
import { merged } from './openapi-names.ts';
import { pathsOf } from './openapi-paths.ts';
import { schemasOf, SHARED_SCHEMAS } from './openapi-schemas.ts';

/**
 * `/openapi/v3`, which lists a document for each group and version, and the documents. Undefined for all other paths,
 * including `/openapi/v2`: current clients fall back to version 3.
 *
 * @throws ApiFailure 406
 * @see https://kubernetes.io/docs/concepts/overview/kubernetes-api/#openapi-v3
 */
export function openApiAnswer(
  path: string,
  accept: string | undefined,
  registry: ResourceRegistry,
): DocumentAnswer | undefined {
  const [root, generation, ...below] = path.split('/').filter((part) => part !== '');
  if (root !== 'openapi' || generation !== 'v3') return undefined;
  const versions = groupsOf(registry.all()).flatMap((group) => group.versions);
  if (below.length === 0) return documentAnswer(indexOf(versions), accept);
  const version = versions.find((candidate) => keyOf(candidate) === below.join('/'));
  return version === undefined ? undefined : documentAnswer(documentOf(version), accept);
}

/** `api/v1`, `apis/infra.example.com/v1`. */
const keyOf = ({ groupVersion }: ServedVersion): string =>
  `${groupVersion.includes('/') ? 'apis' : 'api'}/${groupVersion}`;

function indexOf(versions: readonly ServedVersion[]): JsonObject {
  const entries = versions.map((version): readonly [string, JsonObject] => {
    const key = keyOf(version);
    // Clients cache a document as long as its hash is the same.
    return [key, { serverRelativeURL: `/openapi/v3/${key}?hash=${hashOf(version)}` }];
  });
  return { paths: Object.fromEntries(entries) };
}

function documentOf({ types }: ServedVersion): JsonObject {
  const parts = types.map(partOf);
  return {
    openapi: '3.0.0',
    info: { title: 'Kubernetes', version: GIT_VERSION },
    paths: merged(parts.map(({ paths }) => paths)),
    components: { schemas: merged([SHARED_SCHEMAS, ...parts.map(({ schemas }) => schemas)]) },
  };
}

/** The part of a document that describes one resource. */
interface Part {
  readonly paths: JsonObject;
  readonly schemas: JsonObject;
  readonly hash: string;
}

/** Memoised by type, because types are immutable: a change to one CRD must not rebuild the others. */
const known = new WeakMap<ResourceType, Part>();

function partOf(type: ResourceType): Part {
  const remembered = known.get(type);
  if (remembered !== undefined) return remembered;
  const described = { paths: pathsOf(type), schemas: schemasOf(type) };
  const part = { ...described, hash: sha256(stringifyJson(described)) };
  known.set(type, part);
  return part;
}

const hashOf = ({ types }: ServedVersion): string => sha256(types.map((type) => partOf(type).hash).join());

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex').toUpperCase();
