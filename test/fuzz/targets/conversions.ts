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
import { isEqual, listIn, ownValue, parseJson, type JsonObject } from '../../../src/json/json.ts';
import { conversionPolicySchema, type ConversionPolicySpec } from '../../../src/api/conversion-policy.ts';
import { mutatedObject, mutatedText } from '../mutated.ts';
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

/** Parsing a review in parts gives the same objects as parsing all of it. */
export const conversionText = fuzzTarget('conversion review', 70, mutatedText([REVIEW]), async (text) => {
  const whole = answerOf(() => parseJson(text), isSyntaxError);
  const parts = await splitReview(text, () => undefined).catch((error: unknown) => {
    if (isSyntaxError(error)) return undefined;
    throw error;
  });
  if (whole === undefined) return; // parsing the parts finds the syntax error later
  hold(parts !== undefined, 'valid JSON was refused');
  const read = (parts?.objects ?? []).map(({ start, end }) => parseJson(text.slice(start, end)));
  hold(isEqual(read, listIn(whole, 'request', 'objects')), () => `the parts are ${toJsonText(read)}`);
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
