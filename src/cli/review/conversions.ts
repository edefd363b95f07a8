/** Converts objects between versions with the ConversionPolicies and handlers of the input. */
import { compileConversion } from '../../admission/conversion/compile.ts';
import type { Converter } from '../../admission/conversion/converter.ts';
import { readDefinition } from '../../admission/conversion/definition.ts';
import type { CompiledHandler } from '../../admission/handlers/compile-handler.ts';
import { isJsonObject, listIn, textIn, valueIn, type JsonObject, type JsonValue } from '../../json/json.ts';
import type { ConversionPolicy } from '../../api/conversion-policy.ts';
import { toGroupResource } from '../../api/policy-match.ts';
import { groupResourceName, splitApiVersion } from '../../json/kube-object.ts';
import { toJson, type ApiObject } from '../../sandbox/machinery/api-object.ts';
import { createConverter, type ConvertObjects } from '../../sandbox/machinery/crd/convert.ts';
import { DEFINITIONS } from '../../sandbox/machinery/crd/definition.ts';
import { createDefinedView } from '../../sandbox/machinery/objects/decode.ts';
import {
  apiVersionOf,
  type ResourceRegistry,
  type ResourceType,
} from '../../sandbox/machinery/resource-type.ts';
import type { Storage } from '../../sandbox/machinery/storage/stored.ts';
import { joined, type Parsed, type PlacedObject } from './documents.ts';
import { refuse } from './input.ts';
import { readOwn, type Labelled } from './read-own.ts';

/** By the name of the CRD, e.g. `servers.infra.example.com`. */
export type Converters = ReadonlyMap<string, Converter>;

/** @throws UnusableInput with all problems of ConversionPolicies */
export function readConverters(
  objects: readonly PlacedObject[],
  handlers: readonly CompiledHandler[],
  registry: ResourceRegistry,
  storage: Pick<Storage, 'get'>,
): Converters {
  const { found, problems } = readOwn<ConversionPolicy>('ConversionPolicy', objects, registry);
  const compiled = joined(found.map((policy) => compileLabelled(policy, storage)));
  refuse([...problems, ...compiled.problems]);
  const ofHandlers = handlers
    .map(({ converter }) => converter)
    .filter((converter) => converter !== undefined)
    .map((converter) => [groupResourceName(converter.target), converter] as const);
  return new Map<string, Converter>([...ofHandlers, ...compiled.found]);
}

/** The converter, with the name of its CRD. */
function compileLabelled(
  { label, object: policy }: Labelled<ConversionPolicy>,
  storage: Pick<Storage, 'get'>,
): Parsed<readonly [string, Converter]> {
  const name = groupResourceName(toGroupResource(policy.spec.target));
  const crd = storage.get(DEFINITIONS, { namespace: '', name });
  const definition = crd === undefined ? undefined : readDefinition(toJson(crd));
  if (definition === undefined) {
    const message = `spec.target: the CustomResourceDefinition ${name} is missing: add it to the crds`;
    return { found: [], problems: [`${label}: ${message}`] };
  }
  const { usable, problems } = compileConversion(policy, definition);
  return {
    found: usable === undefined ? [] : [[name, usable.converter]],
    problems: problems.map(({ where, message }) => `${label}: ${where}: ${message}`),
  };
}

/**
 * Converts like the API server: by the strategy of the CRD, then prunes and sets the defaults of the new version.
 *
 * @param assume called with the name of a CRD whose webhook is not called; then only the `apiVersion` changes. Undefined: such
 * a conversion fails
 */
export function createConversion(
  storage: Pick<Storage, 'get'>,
  converters: Converters,
  assume?: (name: string) => void,
): ConvertObjects {
  const asDefined = createDefinedView();
  return async (objects, type) => {
    if (!type.custom) return objects;
    const name = groupResourceName(type);
    const definition = storage.get(DEFINITIONS, { namespace: '', name });
    const convert = createConverter((_client, review) => answer(review, name, converters.get(name)));
    const isAssumed = assume !== undefined && !converters.has(name) && isForeign(objects, definition, type);
    if (isAssumed) assume(name);
    const converted =
      definition === undefined || isAssumed
        ? objects.map((object): ApiObject => ({ ...object, apiVersion: apiVersionOf(type) }))
        : await convert(objects, definition, apiVersionOf(type));
    return converted.map((object) => asDefined(object, type));
  };
}

/** Whether another webhook would convert one of the objects. */
const isForeign = (
  objects: readonly ApiObject[],
  definition: ApiObject | undefined,
  type: ResourceType,
): boolean =>
  definition !== undefined &&
  textIn(toJson(definition), 'spec', 'conversion', 'strategy') === 'Webhook' &&
  objects.some(({ apiVersion }) => apiVersion !== apiVersionOf(type));

/** The conversion timeout of the API server. */
const CONVERSION_TIMEOUT_MS = 30_000;

/** The response to a ConversionReview. @throws when there is no converter */
async function answer(
  review: JsonObject,
  name: string,
  converter: Converter | undefined,
): Promise<JsonObject> {
  if (converter === undefined)
    throw new Error(
      `no ConversionPolicy and no handler in the input converts ${name}; other webhooks are not called`,
    );
  const request = valueIn(review, 'request');
  const apiVersion = textIn(request, 'desiredAPIVersion');
  const { version } = splitApiVersion(apiVersion);
  const convertedObjects: JsonValue[] = [];
  for (const object of listIn(request, 'objects').filter(isJsonObject)) {
    const converted = await converter.convert(object, version, AbortSignal.timeout(CONVERSION_TIMEOUT_MS));
    convertedObjects.push({ ...converted, apiVersion, kind: textIn(object, 'kind') });
  }
  return {
    apiVersion: textIn(review, 'apiVersion'),
    kind: 'ConversionReview',
    response: { uid: textIn(request, 'uid'), result: { status: 'Success' }, convertedObjects },
  };
}
