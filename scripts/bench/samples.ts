/** The value of one line of Prometheus' text format; `series` with its labels, as it is written there. */
export function sampleOf(metrics: string, series: string): number | undefined {
  const line = metrics.split('\n').find((one) => one.startsWith(`${series} `));
  return line === undefined ? undefined : Number(line.slice(series.length + 1));
}
