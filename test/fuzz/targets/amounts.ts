/** Short texts for amounts: durations and sizes. */
import { parseDuration as parseApiDuration } from '../../../src/api/duration.ts';
import { parseBytes, parseDuration } from '../../../src/config/quantities.ts';
import { mutatedText } from '../mutated.ts';
import { answerOf, fuzzTarget, hold, isDeliberate } from '../target.ts';

const AMOUNTS = '10s|1.5h|500ms|90d|64MiB|512 KiB|1048576|1h30m0s|2160h|0s|1G'.split('|');

/** The parser returns a finite amount of at least zero, or an error that quotes the input. */
export const amounts = fuzzTarget('duration and size', 30, mutatedText(AMOUNTS), (text) => {
  for (const parse of [parseDuration, parseBytes]) {
    const isAnswer = (error: unknown) => isDeliberate(error) && String(error).includes(text);
    const amount = answerOf(() => parse(text), isAnswer);
    hold(amount === undefined || (Number.isFinite(amount) && amount >= 0), `${text} is ${String(amount)}`);
  }
  const duration = parseApiDuration(text);
  hold(
    duration === undefined || (Number.isSafeInteger(duration) && duration >= 0),
    `${text} is ${String(duration)}`,
  );
});
