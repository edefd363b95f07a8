/** For tests: a conversion endpoint without policies. */
import type { ConversionServing } from '../../../src/server/conversion-routes.ts';

const quiet = () => undefined;

export const noConversions: ConversionServing = {
  lookUp: ({ kind }) => ({ kind: 'none', message: `nothing here converts ${kind}` }),
  bodyLimit: 1024 * 1024,
  log: { debug: quiet, info: quiet, warn: quiet, error: quiet },
  metrics: { conversion: quiet },
};
