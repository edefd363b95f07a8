import type { JsonValue } from '../../json/json.ts';
import { mediaTypeOf, negotiateDocument, plainForm } from '../http/content-type.ts';
import type { ResourceRegistry } from '../../machinery/resource-type.ts';
import { documentAnswer, type DocumentAnswer, VERSION } from './version.ts';
import { groupsOf, type ServedGroup } from './groups.ts';
import { toAggregatedGroup, toGroup, toResourceList } from './resource-list.ts';

/**
 * The discovery documents at `/`, `/version`, `/api`, `/apis` and below; undefined for all other paths.
 * @throws ApiFailure 406
 * @see https://kubernetes.io/docs/concepts/overview/kubernetes-api/#discovery-api
 */
export function discoveryAnswer(
  path: string,
  accept: string | undefined,
  registry: ResourceRegistry,
): DocumentAnswer | undefined {
  const [root = '', ...rest] = path.split('/').filter((part) => part !== '');
  const groups = groupsOf(registry.all());
  switch (root) {
    case '':
      return documentAnswer({ paths: pathsOf(groups) }, undefined);
    case 'version':
      return rest.length === 0 ? documentAnswer(VERSION, undefined) : undefined;
    case 'api':
      return belowApi(rest, accept, groups);
    case 'apis':
      return belowApis(rest, accept, groups);
    default:
      return undefined;
  }
}

/** The core group, which has no name. */
function belowApi(
  [version, ...rest]: readonly string[],
  accept: string | undefined,
  groups: readonly ServedGroup[],
): DocumentAnswer | undefined {
  const core = groups.filter(({ name }) => name === '');
  if (version !== undefined) return rest.length === 0 ? resourceList('', version, accept, core) : undefined;
  const versions = core.flatMap((group) => group.versions.map((served) => served.version));
  return aggregatedOr({ kind: 'APIVersions', versions, serverAddressByClientCIDRs: [] }, accept, core);
}

function belowApis(
  [name, version, ...rest]: readonly string[],
  accept: string | undefined,
  groups: readonly ServedGroup[],
): DocumentAnswer | undefined {
  const named = groups.filter((group) => group.name !== '');
  if (name === undefined) {
    const list = { kind: 'APIGroupList', apiVersion: 'v1', groups: named.map(toGroup) };
    return aggregatedOr(list, accept, named);
  }
  if (version !== undefined)
    return rest.length === 0 ? resourceList(name, version, accept, named) : undefined;
  const group = named.find((candidate) => candidate.name === name);
  if (group === undefined) return undefined;
  return documentAnswer({ kind: 'APIGroup', apiVersion: 'v1', ...toGroup(group) }, accept);
}

function resourceList(
  name: string,
  version: string,
  accept: string | undefined,
  groups: readonly ServedGroup[],
): DocumentAnswer | undefined {
  const versions = groups.find((group) => group.name === name)?.versions ?? [];
  const served = versions.find((candidate) => candidate.version === version);
  return served === undefined ? undefined : documentAnswer(toResourceList(served), accept);
}

const AGGREGATED_VERSIONS = ['v2', 'v2beta1'];

type DiscoveryForm = { readonly kind: 'plain' } | { readonly kind: 'aggregated'; readonly version: string };

function discoveryForm(parameters: ReadonlyMap<string, string>): DiscoveryForm | undefined {
  const version = parameters.get('v') ?? '';
  const aggregated =
    parameters.get('g') === 'apidiscovery.k8s.io' &&
    parameters.get('as') === 'APIGroupDiscoveryList' &&
    AGGREGATED_VERSIONS.includes(version);
  return aggregated ? { kind: 'aggregated', version } : plainForm(parameters);
}

/** All groups with all their resources in one document, if the client accepts it. */
function aggregatedOr(
  plain: JsonValue,
  accept: string | undefined,
  groups: readonly ServedGroup[],
): DocumentAnswer {
  const form = negotiateDocument(accept, discoveryForm);
  const { encoding } = form;
  const mediaType = mediaTypeOf(encoding);
  if (form.kind === 'plain') return { body: plain, encoding, contentType: mediaType };
  return {
    body: {
      kind: 'APIGroupDiscoveryList',
      apiVersion: `apidiscovery.k8s.io/${form.version}`,
      metadata: {},
      items: groups.map(toAggregatedGroup),
    },
    encoding,
    contentType: `${mediaType};g=apidiscovery.k8s.io;v=${form.version};as=APIGroupDiscoveryList`,
  };
}

const OTHER_PATHS = [
  '/api',
  '/apis',
  '/apis/',
  '/healthz',
  '/livez',
  '/openapi/v3',
  '/openapi/v3/',
  '/readyz',
  '/version',
];

function pathsOf(groups: readonly ServedGroup[]): readonly string[] {
  const served = groups.flatMap(({ name, versions }) => {
    const root = name === '' ? '/api' : `/apis/${name}`;
    return [...(name === '' ? [] : [root]), ...versions.map(({ version }) => `${root}/${version}`)];
  });
  return [...OTHER_PATHS, ...served].toSorted();
}
