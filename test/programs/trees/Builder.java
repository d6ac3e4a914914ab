// SPDX-License-Identifier: Apache-2.0
// A JVM that starts a shell in each round.
import java.io.*;
import java.nio.file.*;

public class Builder {
	public static void main(String[] arguments) throws Exception {
		File until = new File(System.getenv("UNTIL"));
		String sum = "start";

		try (PrintWriter out = new PrintWriter(new FileWriter("answers"))) {
			for (int k = 0; k < 250; k++) {
				Process p = new ProcessBuilder("sh", "-c", "cat | sha256sum; sleep 0.02")
					.redirectErrorStream(true).start();
				try (Writer w = new OutputStreamWriter(p.getOutputStream())) {
					w.write(sum + k);
				}
				sum = new BufferedReader(new InputStreamReader(p.getInputStream()))
					.readLine().substring(0, 64);
				out.println(k + " " + sum + " " + p.waitFor());
				out.flush();
				if (!until.exists())
					Thread.sleep(150);
			}
		}
		Files.copy(Paths.get("answers"), Paths.get("final"));
	}
}
