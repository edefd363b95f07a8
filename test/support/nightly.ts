/** Set by the vitest project `nightly`: the complete form of suites of which CI runs a part. */
export const isNightly = process.env.GATEHOUSE_NIGHTLY === '1';
