// SPDX-License-Identifier: Apache-2.0
// launch.sh's program in Go: threads of Go's own runtime, without libc.
package main

import (
	"fmt"
	"os"
	"runtime"
	"sync"
)

func main() {
	var all sync.WaitGroup
	sums := make([]int, 4)
	for i := range sums {
		all.Add(1)
		go func(i int) {
			runtime.LockOSThread()
			for k := 0; k < 1000; k++ {
				sums[i] += k
			}
			all.Done()
		}(i)
	}
	all.Wait()
	fmt.Println("sums", sums, os.Args[1:])
	os.Exit(7)
}
