import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';

import { parseJson, type JsonObject } from '../../json/json.ts';
import { InvalidReview } from '../review/request.ts';
import { answerReview, type AnsweredReview } from './answer-review.ts';
import { ConversionFailure, type Converter, type ConverterLookup } from './converter.ts';
import { compiled, definitionOf, GROUP, server } from '../../../test/support/admission/conversion.ts';

const atOnce = () => undefined;

/** Renames `spec.a` to `spec.b` in v2, and back. */
const renaming: Converter = {
  name: 'handler widgets',
  target: { group: 'foo', resource: 'widgets' },
  versions: undefined,
  convert: (object, to) => {
    const { spec: { a, b } = {} } = object as {
      readonly spec?: { readonly a?: string; readonly b?: string };
    }; // the tests create no other fields
    return { ...object, spec: to === 'v2' ? { b: a ?? b ?? '' } : { a: b ?? a ?? '' } };
  },
};
const found = (change: Partial<Converter> = {}): ConverterLookup => ({
  kind: 'found',
  converter: { ...renaming, ...change },
});

const widget = (version: string, name: string, spec: object = {}): object => ({
  apiVersion: `foo/${version}`,
  kind: 'Widget',
  metadata: { name, namespace: 'n' },
  spec,
});

const review = (objects: readonly unknown[], fields: object = {}, version = 'v1'): string =>
  JSON.stringify({
    apiVersion: `apiextensions.k8s.io/${version}`,
    kind: 'ConversionReview',
    request: { uid: 'uid', desiredAPIVersion: 'foo/v2', objects, ...fields },
  });

const ask = (
  text: string,
  lookup: ConverterLookup = found(),
  { signal = new AbortController().signal, definition }: { signal?: AbortSignal; definition?: string } = {},
): Promise<AnsweredReview> => answerReview({ text }, definition, () => lookup, atOnce, signal);

/** The response and its report. */
async function answer(...args: Parameters<typeof ask>) {
  const answered = await ask(...args);
  if (answered.kind !== 'answered') throw new Error(answered.message);
  const written = parseJson(answered.texts.join('')) as {
    readonly apiVersion: string;
    readonly kind: string;
    readonly response: {
      readonly uid: string;
      readonly convertedObjects: readonly JsonObject[];
      readonly result: object;
    };
  };
  return { ...written, report: answered.report };
}
/** The response text. */
async function sent(...args: Parameters<typeof ask>): Promise<string> {
  const answered = await ask(...args);
  return answered.kind === 'answered' ? answered.texts.join('') : answered.message;
}

const failureOf = async (...args: Parameters<typeof ask>): Promise<string> => {
  const { response } = await answer(...args);
  expect(response.convertedObjects).toEqual([]);
  expect(response.result).toMatchObject({ status: 'Failed' });
  return String((response.result as { readonly message?: unknown }).message);
};

describe('TestGetObjectsToConvert', () => {
  test.each<[string, readonly object[], readonly string[]]>([
    ['empty list', [], []],
    ['mixed versions', [widget('v1', 'a'), widget('v2', 'b'), widget('v3', 'c')], ['a', 'b', 'c']],
  ])('%s: the answer has as many objects, in the same order', async (_name, objects, names) => {
    const { response, report } = await answer(review(objects));
    expect(response.result).toEqual({ status: 'Success' });
    expect(response.convertedObjects).toHaveLength(names.length);
    expect(response.convertedObjects).toMatchObject(
      names.map((name) => ({ apiVersion: 'foo/v2', metadata: { name } })),
    );
    expect(report).toMatchObject({ uid: 'uid', to: 'v2', objects: objects.length, failure: undefined });
  });

  test('an object already in the desired version bypasses the converter and is returned byte for byte', async () => {
    const text =
      '{"kind":"Widget","apiVersion":"foo/v2" ,  "metadata":{"name":"a"},"n":1.50,"big":12345678901234567890}';
    const asked = review([]).replace('[]', `[ ${text} ]`);
    const uncalled = found({ convert: () => Promise.reject(new Error('unexpected call')) });
    expect(await sent(asked, uncalled)).toContain(`[${text}]`);
  });
});

describe('TestCreateConversionReviewObjects', () => {
  test('the answer has the version and the uid of the review', async () => {
    const { apiVersion, kind, response } = await answer(review([widget('v1', 'a', { a: 'x' })]));
    expect([apiVersion, kind, response.uid]).toEqual(['apiextensions.k8s.io/v1', 'ConversionReview', 'uid']);
    expect(response.convertedObjects).toEqual([widget('v2', 'a', { b: 'x' })]);
  });

  test.each<[string, string, string]>([
    ['another version', review([], {}, 'v1beta1'), 'apiVersion: "apiextensions.k8s.io/v1beta1" is not'],
    ['text that is not JSON', '{"request":', 'the body is not JSON'],
    ['too many values', '['.repeat(1_000_001), 'more than a million values'],
  ])('a review with %s is refused', async (_name, text, message) => {
    await expect(ask(text)).rejects.toThrow(InvalidReview);
    await expect(ask(text)).rejects.toThrow(message);
  });

  test.each<[string, string, string]>([
    ['a missing desired version', review([], { desiredAPIVersion: '' }), 'request.desiredAPIVersion'],
    ['missing objects', review([], { objects: null }), 'request.objects: not a list'],
    ['items that are not objects', review([widget('v1', 'a'), 7]), 'request.objects[1]: not an object'],
    [
      'an object that is not JSON',
      review([{}]).replace('{}', '{nope}'),
      'the body is not JSON: request.objects[0]',
    ],
    ['a cut end', review([widget('v1', 'a')]).slice(0, -20), 'the body is not JSON'],
    ['many items that are too short', review(Array(5_000).fill({})), 'too short to be objects'],
    [
      'an object of too many values',
      review([widget('v1', 'a'), Array(1_000_001).fill(0)]),
      'more than a million values',
    ],
  ])(
    'issue 16: a review with %s fails under its uid, without an HTTP error',
    async (_name, text, message) => {
      const answered = await ask(text);
      expect(answered).toMatchObject({ kind: 'answered', report: { uid: 'uid', objects: 0 } });
      expect(JSON.stringify(answered)).toContain(message.replaceAll('"', '\\"'));
    },
  );
});

describe('controller-runtime: Conversion Webhook', () => {
  test('should return error when dest/src objects belong to different API groups', async () => {
    const foreign = { ...widget('v1', 'a'), apiVersion: 'foos/v1' };
    expect(await failureOf(review([foreign]))).toContain(
      'its API group is not "foo", and a conversion cannot change the group',
    );
  });
});

describe('a failure', () => {
  const failing = found({
    convert: (object) => {
      if (JSON.stringify(object).includes('bad')) throw new ConversionFailure('spec.a is bad: fix it');
      return object;
    },
  });

  test('of one object fails the whole review and names that object', async () => {
    const objects = [widget('v1', 'good'), widget('v1', 'bad'), widget('v1', 'better')];
    expect(await failureOf(review(objects), failing)).toBe(
      'Widget "n/bad" cannot be converted from v1 to v2: handler widgets: spec.a is bad: fix it',
    );
  });

  test('names the version that the converter does not support', async () => {
    const lookup = found({ versions: ['v1', 'v2'] });
    expect(await failureOf(review([widget('v0', 'a')]), lookup)).toContain(
      'handler widgets does not support version "v0"',
    );
    expect(await failureOf(review([widget('v1', 'a')], { desiredAPIVersion: 'foo/v3' }), lookup)).toContain(
      '"v3"',
    );
  });

  test('is the answer for an object of another kind in the list', async () => {
    const other = { ...widget('v1', 'b'), kind: 'Gadget' };
    expect(await failureOf(review([widget('v1', 'a'), other]))).toContain('Gadget "n/b" cannot be converted');
  });

  test('has a bounded message that cannot be mistaken for another one', async () => {
    const lookup = found({
      convert: () => {
        throw new ConversionFailure(`line\n${'x'.repeat(5_000)}`);
      },
    });
    const message = await failureOf(review([widget('v1', 'a')]), lookup);
    expect(message).toContain('line\\u000a');
    expect(message.length).toBeLessThan(1_100);
  });
});

describe('an answer that does not arrive', () => {
  test('stops waiting for a converter that never ends when the timeout expires', async () => {
    const controller = new AbortController();
    const never = found({ convert: () => new Promise(() => undefined) });
    const asked = failureOf(review([widget('v1', 'a')]), never, controller);
    setImmediate(() => {
      controller.abort();
    });
    expect(await asked).toContain('the converter did not answer in time');
  });

  test('abandons a list between two objects', async () => {
    const controller = new AbortController();
    const converted: string[] = [];
    const counting = found({
      convert: (object) => {
        converted.push('one');
        if (converted.length === 2) controller.abort();
        return object;
      },
    });
    const objects = ['a', 'b', 'c', 'd'].map((name) => widget('v1', name));
    const message = await failureOf(review(objects), counting, controller);
    expect(message).toContain('expired after 2 of 4 objects');
    expect(converted).toHaveLength(2);
  });
});

describe('hostile objects', () => {
  const { converter } = compiled();
  const deep = `${'{"a":['.repeat(10_000)}9007199254740993${']}'.repeat(10_000)}`;
  const text = (extra: string) =>
    JSON.stringify(server('v1', { spec: { endpoint: 'a:80', extra: '?' } })).replace('"?"', extra);

  test.each([
    ['20,000 levels deep', deep],
    [
      'with JavaScript property names as keys',
      '{"__proto__":{"polluted":1},"constructor":{"prototype":1},"toString":null}',
    ],
    ['of 3 MiB', `{"text":"${'x'.repeat(3 * 1024 * 1024)}"}`],
  ])('an object %s is converted, and untouched fields keep their bytes', async (_what, extra) => {
    const asked = review([], { desiredAPIVersion: `${GROUP}/v2` }).replace('[]', `[${text(extra)}]`);
    const answered = await sent(asked, { kind: 'found', converter });
    expect(answered.includes('"status":"Success"') && answered.includes(`"extra":${extra}`)).toBe(true);
    expect(Object.hasOwn(Object.prototype, 'polluted')).toBe(false);
  });
});

test('the converter is looked up by group and kind of the objects, and by the path', async () => {
  const asked: unknown[] = [];
  const lookUp = (subject: unknown) => {
    asked.push(subject);
    return found();
  };
  const { signal } = new AbortController();
  await answerReview({ text: review([widget('v1', 'a')]) }, 'widgets.foo', lookUp, atOnce, signal);
  await answerReview({ text: review([]) }, undefined, lookUp, atOnce, signal);
  expect(asked).toEqual([{ group: 'foo', kind: 'Widget', definition: 'widgets.foo' }]);
});

test('other requests run between two objects', async () => {
  let breaths = 0;
  const breathe = () => {
    breaths += 1;
    return Promise.resolve();
  };
  const objects = Array.from({ length: 5 }, (_, index) => widget('v1', `w${index}`));
  const { signal } = new AbortController();
  await answerReview({ text: review(objects) }, undefined, () => found(), breathe, signal);
  expect(breaths).toBe(10); // two per object: one to find it, one to convert it
});

describe('ConversionReviews that a kube-apiserver 1.37 sent', () => {
  const recorded = readFileSync(
    new URL('../../../test/data/admission-reviews-1.37.jsonl', import.meta.url),
    'utf8',
  )
    .trim()
    .split('\n')
    .map(
      (line) => JSON.parse(line) as { readonly step: string; readonly path: string; readonly body: string },
    ) // the file is part of this repository
    .filter(({ path }) => path.startsWith('/convert'));
  const definition = definitionOf([{ name: 'v1' }, { name: 'v1beta1' }]);
  const { converter } = compiled({ hub: 'v1', versions: [{ name: 'v1beta1' }] }, definition);

  test.each(recorded.map(({ step, body }, index) => [`${index + 1} ${step}`, body] as const))(
    '%s: only the version changes, and all other bytes are equal',
    async (_step, body) => {
      const { response } = await answer(body, { kind: 'found', converter });
      expect(response.result).toEqual({ status: 'Success' });
      const desired = /"desiredAPIVersion":"([^"]+)"/.exec(body)?.[1] ?? '';
      const [, objects = ''] = /"objects":(\[.*\])\},"response"/.exec(body) ?? [];
      const expected = objects.replace(
        new RegExp(`^\\[\\{"apiVersion":"${GROUP}/[a-z0-9]+"`),
        `[{"apiVersion":"${desired}"`,
      );
      expect(await sent(body, { kind: 'found', converter })).toContain(`"convertedObjects":${expected},`);
    },
  );

  test('the recording has 24 reviews', () => {
    expect(recorded).toHaveLength(24);
  });
});
