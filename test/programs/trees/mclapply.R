# SPDX-License-Identifier: Apache-2.0
# R's mclapply.
library(parallel)
sum <- 1
out <- file("answers", "w")
for (k in 1:150) {
	got <- mclapply(1:4, mc.cores = 2, function(i) {
		x <- sum + i
		for (j in 1:5000) x <- (x * 16807) %% 2147483647
		x
	})
	sum <- sum(unlist(got)) %% 2147483647
	cat(k, sum, "\n", file = out)
	flush(out)
	if (!file.exists(Sys.getenv("UNTIL"))) Sys.sleep(1)
}
close(out)
file.copy("answers", "final")
