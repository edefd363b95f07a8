/** Conversions of objects between the versions of a CRD. */
import fc from 'fast-check';

import { ConversionFailure } from '../../../src/admission/conversion/converter.ts';
import { compileConversion } from '../../../src/admission/conversion/compile.ts';
import {
  compiled,
  policyOf,
  server,
  serversSpec,
  threeVersions,
} from '../../support/admission/conversion.ts';
import { splitReview } from '../../../src/admission/conversion/review-text.ts';
import { pruneObject } from '../../../src/admission/conversion/structural-schema.ts';
import { toJsonText } from '../../../src/json/json-text.ts';
import {
  isEqual,
  isJsonObject,
  objectIn,
  ownValue,
  parseJson,
  type JsonObject,
  type JsonValue,
} from '../../../src/json/json.ts';
import { conversionPolicySchema, type ConversionPolicySpec } from '../../../src/api/conversion-policy.ts';
import { anyJson, mutatedObject, mutatedText } from '../mutated.ts';
import { answerOf, fuzzTarget, hold, holdProblems, storedAs } from '../target.ts';

const NEVER = new AbortController().signal;
const VERSIONS = ['v1', 'v2', 'v3'] as const;
const conversion = compiled({}, threeVersions({ preserveUnknownFields: true }));
type Converter = Pick<typeof conversion.converter, 'convert'>;

const FIELDS: JsonObject = {
  spec: {
    endpoint: 'db:5432',
    rack: 'b-17',
    replicas: 9007199254740993n,
    disks: [
      { name: 'a', size: '5Gi' },
      { name: 'b', size: 'x', gigabytes: 3 },
    ],
    address: { host: 'db', port: 5432 },
    count: 3,
    sizes: ['1', '2'],
    extra: { ['__proto__']: { list: [1, { a: null }] } },
    legacy: { mode: 'on' },
  },
  status: { phase: 'Ready', state: 'Ready' },
};

function stored(version: string, fields: JsonObject): JsonObject {
  const schema = conversion.definition.versions.find(({ name }) => name === version)?.schema;
  return pruneObject(server(version, fields), schema);
}

const journeys = fc.tuple(
  fc.constantFrom(...VERSIONS),
  fc.array(fc.constantFrom(...VERSIONS), { minLength: 1, maxLength: 4 }),
  mutatedObject([FIELDS]),
);

export const conversions = fuzzTarget('conversion', 30, journeys, async ([from, versions, fields]) => {
  const { spec, status } = fields;
  const original = stored(from, {
    ...(spec === undefined ? {} : { spec }),
    ...(status === undefined ? {} : { status }),
  });
  let current = original;
  for (const version of [...versions, from]) {
    const converted = await convert(conversion.converter, current, version);
    if (converted === undefined) return; // the converter reported a failure, so the API server fails the request
    hold(
      ownValue(converted, 'apiVersion') === `infra.example.com/${version}`,
      'the object is in another version',
    );
    current = converted;
  }
  hold(isEqual(current, original), () => `it came back as ${toJsonText(current)}`);
});

async function convert(converter: Converter, object: JsonObject, version: string) {
  try {
    return await converter.convert(object, version, NEVER);
  } catch (error) {
    if (error instanceof ConversionFailure) return undefined;
    throw error;
  }
}

const reviewText = (objects: readonly JsonObject[]): string =>
  toJsonText({
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'ConversionReview',
    request: { uid: 'u', desiredAPIVersion: 'infra.example.com/v2', objects },
  });
const REVIEW = reviewText([server('v1', FIELDS), server('v3', FIELDS)]);

const isSyntaxError = (error: unknown) => error instanceof SyntaxError;

const SPACED = JSON.stringify(
  { kind: 'R', request: { objects: [{ a: '"]}' }, [1, null], -1.5, true] } },
  null,
  '\r\n ',
);
const anyReview = fc
  .tuple(anyJson, anyJson)
  .map(([objects, other]) =>
    toJsonText({ kind: other, request: { objects, uid: other }, response: objects }),
  );

async function parsedInParts(text: string): Promise<JsonValue> {
  const { envelope, objects } = await splitReview(text, () => undefined);
  const review = parseJson(envelope);
  const read = objects.map(({ start, end }) => parseJson(text.slice(start, end)));
  if (read.length === 0 || !isJsonObject(review)) return review;
  return { ...review, request: { ...objectIn(review, 'request'), objects: read } };
}

const reviewTexts = fc.oneof(mutatedText([REVIEW, SPACED]), anyReview);

/** Parsing a review in parts gives the same value as parsing all of it, or both refuse it. */
export const conversionText = fuzzTarget('conversion review', 70, reviewTexts, async (text) => {
  const whole = answerOf(() => parseJson(text), isSyntaxError);
  const parts = await parsedInParts(text).catch((error: unknown) => {
    if (isSyntaxError(error)) return undefined;
    throw error;
  });
  hold((parts === undefined) === (whole === undefined), 'only one of the two parsers accepts it');
  if (whole === undefined || parts === undefined) return;
  hold(isEqual(parts, whole), () => `the parts are ${toJsonText(parts)}`);
});

const SPEC = serversSpec as unknown as JsonObject; // the value is JSON
const definition = threeVersions();

/**
 * A policy that the API server accepts compiles, or is rejected with problems that name their place. A compiled policy
 * converts objects, or throws a ConversionFailure.
 */
export const conversionPolicies = fuzzTarget('conversion policy', 4, mutatedObject([SPEC]), async (input) => {
  const spec = storedAs(input, conversionPolicySchema.properties.spec);
  if (spec === undefined) return;
  const valid = spec as unknown as ConversionPolicySpec; // storedAs has checked it
  const { usable, problems } = compileConversion(policyOf(valid), definition);
  if (usable === undefined || problems.length > 0) holdProblems(problems);
  if (usable === undefined) return;
  const object = stored('v1', FIELDS);
  for (const version of VERSIONS) {
    if (usable.converter.versions?.includes(version) !== true) continue;
    await convert(usable.converter, object, version);
  }
});
